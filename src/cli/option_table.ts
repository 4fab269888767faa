import { parseDuration } from "./duration.ts";
import { trustRule } from "../http/client_address.ts";
import { isOrigin } from "../http/origin.ts";

/** One option of the command, wherever it is set. */
export interface Option<T> {
  /** What its help says, one line. */
  readonly help: string;
  /** How a value looks, for the help; a switch has none. */
  readonly value?: string;
  /** What it is when nobody sets it; `undefined` is "not set". */
  readonly default: T;
  /** Its name in the manifest's settings. */
  readonly manifest?: string;
  /** What it is in YAML. */
  readonly yaml: "boolean" | "number" | "string" | "list";
  /** What a right value is, for messages. */
  readonly expected: string;
  /** Reads a value. @throws {RangeError} If it is not a right one. */
  readonly read: (text: string) => T;
}

type Definition<T> = Pick<Option<T>, "help" | "default"> & { manifest?: string };

/** The text was not what the option takes; whoever catches it says which option it was. */
class WrongValue extends RangeError {}

function toggle(definition: Definition<boolean>): Option<boolean> {
  const expected = "true or false";
  return {
    ...definition,
    yaml: "boolean",
    expected,
    read: (text) => oneOf(text, ["true", "false"], expected) === "true",
  };
}

function choice<T extends string, D extends T | undefined>(
  values: readonly T[],
  definition: Definition<D>,
): Option<T | D> {
  const expected = `one of ${values.join(", ")}`;
  const read = (text: string) => oneOf(text, values, expected);
  return { ...definition, yaml: "string", value: values.join("|"), expected, read };
}

function oneOf<T extends string>(text: string, values: readonly T[], expected: string): T {
  const found = values.find((value) => value === text);
  if (found === undefined) throw new WrongValue(expected);
  return found;
}

function integer<D>(least: number, most: number, definition: Definition<number | D>): Option<number | D> {
  const expected = `an integer from ${least} to ${most}`;
  const read = (text: string) => {
    const number = /^\d{1,9}$/.test(text) ? Number(text) : NaN;
    if (!(number >= least && number <= most)) throw new WrongValue(expected);
    return number;
  };
  return { ...definition, yaml: "number", value: "N", expected, read };
}

function duration(least: string, most: string, definition: Definition<string>): Option<number> {
  const expected = `a duration from ${least} to ${most}, such as ${definition.default}`;
  const read = (text: string) => {
    const ms = parseDuration(text);
    if (ms === undefined || ms < Number(parseDuration(least)) || ms > Number(parseDuration(most))) {
      throw new WrongValue(expected);
    }
    return ms;
  };
  const byDefault = Number(parseDuration(definition.default));
  return { ...definition, default: byDefault, yaml: "string", value: "DURATION", expected, read };
}

function text(value: string, definition: Definition<string>): Option<string>;
function text(value: string, definition: Definition<undefined>): Option<string | undefined>;
function text<D>(value: string, definition: Definition<string | D>): Option<string | D> {
  const expected = "some text";
  const read = (given: string) => {
    if (given === "" || given.includes("\0")) throw new WrongValue(expected);
    return given;
  };
  return { ...definition, yaml: "string", value, expected, read };
}

function list(
  value: string,
  { check, expected, ...definition }: Definition<readonly string[]> & {
    expected: string;
    check: (item: string) => boolean;
  },
): Option<readonly string[]> {
  const read = (given: string) => {
    const items = given.split(",").map((item) => item.trim()).filter((item) => item !== "");
    if (items.length === 0 || !items.every(check)) throw new WrongValue(expected);
    return items;
  };
  return { ...definition, yaml: "list", value, expected, read };
}

function upstreamUrl(definition: Definition<undefined>): Option<URL | undefined> {
  const expected = "a URL such as http://127.0.0.1:3000, or host:port";
  const read = (given: string) => {
    const url = URL.parse(/^https?:\/\//.test(given) ? given : `http://${given}`);
    const isPlain = url !== null && url.username + url.password + url.search + url.hash === "";
    if (!isPlain) throw new WrongValue(expected);
    return url;
  };
  return { ...definition, value: "URL", expected, yaml: "string", read };
}

function isProxy(item: string): boolean {
  try {
    trustRule([item]);
    return true;
  } catch {
    return false; // the message that names the option is made by the caller
  }
}

/**
 * Every option, once: its flag is `--name`, its environment variable `REP_GATEWAY_NAME`. Parsing, checking, `--help` and the
 * README's table are made from this.
 */
export const OPTIONS = {
  "port": integer(0, 65535, { default: 8080, help: "Port to listen on; 0 takes a free one" }),
  "hostname": text("HOST", { default: "0.0.0.0", help: "Address to listen on" }),
  "health-port": integer<undefined>(0, 65535, {
    default: undefined,
    help: "Serve /rep/health on this port, and only there",
  }),
  "mode": choice(["embedded", "proxy"], {
    default: undefined,
    help: "Serve --static-dir or --upstream; by default the one that is set",
  }),
  "static-dir": text("DIR", { default: undefined, help: "Directory to serve, with the configuration in its pages" }),
  "upstream": upstreamUrl({ default: undefined, help: "Server to stand before, with the configuration in its pages" }),
  "upstream-timeout": duration("1s", "1h", {
    default: "30s",
    help: "How long the upstream may take to begin its answer",
  }),
  "manifest": text("FILE", { default: undefined, help: "Manifest that declares the variables (.rep.yaml)" }),
  "env-file": text("PATH", {
    default: undefined,
    help: "File of NAME=value lines, or directory of a file per variable",
  }),
  "strict": toggle({
    default: false,
    manifest: "strict_guardrails",
    help: "Refuse PUBLIC values that look like secrets",
  }),
  "hot-reload": toggle({ default: false, manifest: "hot_reload", help: "Serve /rep/changes" }),
  "hot-reload-mode": choice(["signal", "file_watch", "poll"], {
    default: "signal",
    manifest: "hot_reload_mode",
    help: "What notices a change; SIGHUP always does",
  }),
  "watch-path": text("PATH", {
    default: undefined,
    help: "What file_watch watches, and reads if there is no --env-file",
  }),
  "poll-interval": duration("1s", "24h", {
    default: "30s",
    manifest: "hot_reload_poll_interval",
    help: "How often poll and file_watch look",
  }),
  "allowed-origins": list("ORIGIN,…", {
    default: [],
    manifest: "allowed_origins",
    expected: "origins such as https://app.example.com",
    check: isOrigin,
    help: "Origins whose pages may have a session key; by default its own",
  }),
  "trusted-proxies": list("CIDR,…", {
    default: [],
    expected: "IP addresses or CIDR blocks such as 10.0.0.0/8",
    check: isProxy,
    help: "Proxies whose X-Forwarded-* headers are believed",
  }),
  "kv": text("PATH|URL|:memory:", {
    default: undefined,
    help: "Deno KV database; by default the one Deno keeps for this program",
  }),
  "session-key-ttl": duration("1s", "30s", {
    default: "30s",
    manifest: "session_key_ttl",
    help: "How long a session key may be used",
  }),
  "session-key-max-rate": integer(1, 10_000, {
    default: 10,
    manifest: "session_key_max_rate",
    help: "Session keys for one client address in any 60 seconds",
  }),
  "key-rotation": duration("1m", "24h", { default: "10m", help: "How often pages get a new key" }),
  "key-retention": duration("1m", "720h", { default: "24h", help: "How long a page's key can be asked for" }),
  "max-streams": integer(1, 1_000_000, { default: 5_000, help: "Streams that may be open at once; each takes 64 KiB" }),
  "max-stream-age": duration("1s", "24h", {
    default: "30m",
    help: "When a stream ends; its client comes back by itself",
  }),
  "drain": duration("0s", "10m", {
    default: "10s",
    help: "Time after that in which streams are ended and requests in flight may finish",
  }),
  "stop-delay": duration("0s", "10m", {
    default: "0s",
    help: "Time to serve everything after SIGTERM while /rep/health answers 503",
  }),
  "tls-cert": text("FILE", { default: undefined, help: "TLS certificate chain (PEM); with --tls-key" }),
  "tls-key": text("FILE", { default: undefined, help: "TLS private key (PEM); with --tls-cert" }),
  "log-format": choice(["json", "text"], { default: "json", help: "How log lines look" }),
  "log-level": choice(["debug", "info", "warn", "error"], {
    default: "info",
    help: "The least important level to log; the audit log is on info",
  }),
} as const;

/** The name of an option. */
export type OptionName = keyof typeof OPTIONS;

/** All options, each with its value. */
export type Settings = { readonly [N in OptionName]: (typeof OPTIONS)[N] extends Option<infer T> ? T : never };

/** The names of all options, in the order of the help. */
export const OPTION_NAMES = Object.keys(OPTIONS) as OptionName[];

/** The environment variable of an option. */
export function environmentVariable(name: string): string {
  return `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`;
}

/** Whether an option is a switch: on without a value. */
export function isSwitch(name: OptionName): boolean {
  return OPTIONS[name].yaml === "boolean";
}
