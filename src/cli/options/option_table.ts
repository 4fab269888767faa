import {
  NUMBER_OPTIONS,
  type NumberOption,
  type NumberRange,
} from "../../options.ts";
import { isHostPattern } from "../../http/allowed_hosts.ts";
import { trustRule } from "../../http/client_address.ts";
import { normalizeOrigin } from "../../http/origin.ts";
import { WINDOW_MS } from "../../keys/sliding_window.ts";
import { EXPECTED_APP, isAppName } from "../../store/app_store.ts";
import { EXPECTED_BASE_PATH, parseBasePath } from "../../values/base_path.ts";
import { formatByteSize, parseByteSize } from "../../values/byte_size.ts";
import { formatDuration, parseDuration } from "../../values/duration.ts";
import { EXPECTED_GLOBS, isGlob } from "../../values/globs.ts";
import { parseUpstream } from "../../values/upstream_url.ts";

/** An option of the command, wherever it is set. */
export interface Option<T> {
  /** Description for `--help`, in one line. */
  readonly help: string;
  /** Placeholder of the value in `--help`; a switch has none. */
  readonly value?: string;
  /** Value if the option is not set. */
  readonly default: T;
  /** Name of the option in the `settings` of a manifest. */
  readonly manifest?: string;
  /** Type of the value in a manifest. Lists are separated by commas everywhere else. */
  readonly type: "boolean" | "number" | "string" | "list";
  /** Description of a valid value, for error messages. */
  readonly expected: string;
  /** Parses a value; `undefined` if it is invalid. */
  readonly parse: (text: string) => T | undefined;
}

/** Options by name. */
export type OptionTable = Readonly<Record<string, Option<unknown>>>;

/** The value of every option of a table. */
export type OptionValues<Table> = {
  readonly [N in keyof Table]: Table[N] extends Option<infer T> ? T : never;
};

/** The parts of an option that its type decides. */
type OptionType<T> = Omit<Option<T>, "help" | "manifest">;

/** The booleans of Go's `strconv.ParseBool`, so that the environment of REP's Go gateway can be used unchanged. */
const TRUE: readonly string[] = ["1", "t", "T", "TRUE", "true", "True"];
const FALSE: readonly string[] = ["0", "f", "F", "FALSE", "false", "False"];

/** Returns the type of a switch: `--name` alone turns it on. */
export function toggle(): OptionType<boolean> {
  const parse = (text: string) =>
    TRUE.includes(text) || (FALSE.includes(text) ? false : undefined);
  return { default: false, type: "boolean", expected: "true or false", parse };
}

function choice<T extends string, D extends T | undefined = undefined>(
  values: readonly T[],
  { default: defaultValue, ignoreCase = false }: {
    readonly default?: D;
    readonly ignoreCase?: boolean;
  } = {},
): OptionType<T | D> {
  const expected = `one of ${values.join(", ")}`;
  const parse = (text: string) =>
    values.find((value) => value === (ignoreCase ? text.toLowerCase() : text));
  return {
    default: defaultValue as D,
    type: "string",
    value: values.join("|"),
    expected,
    parse,
  };
}

/** Returns the type of an integer. */
export function integer(range: NumberOption): OptionType<number>;
/** Returns the type of an integer without a default. */
export function integer(range: NumberRange): OptionType<number | undefined>;
export function integer(
  range: NumberRange & Partial<NumberOption>,
): OptionType<number | undefined> {
  const { default: defaultValue, min, max } = range;
  const expected = `an integer from ${min} to ${max}`;
  const parse = (text: string) =>
    inRange(/^\d{1,16}$/.test(text) ? Number(text) : undefined, range);
  return { default: defaultValue, type: "number", value: "N", expected, parse };
}

function duration(range: NumberOption): OptionType<number> {
  const [defaultValue, min, max] = [range.default, range.min, range.max].map(
    formatDuration,
  );
  const steps = range.step === undefined
    ? ""
    : ` in steps of ${formatDuration(range.step)}`;
  const expected =
    `a duration from ${min} to ${max}${steps}, such as ${defaultValue}`;
  const parse = (text: string) => inRange(parseDuration(text), range);
  return {
    default: range.default,
    type: "string",
    value: "DURATION",
    expected,
    parse,
  };
}

function byteSize(range: NumberOption): OptionType<number> {
  const [defaultValue, min, max] = [range.default, range.min, range.max].map(
    formatByteSize,
  );
  const expected = `a size from ${min} to ${max}, such as ${defaultValue}`;
  const parse = (text: string) => inRange(parseByteSize(text), range);
  return {
    default: range.default,
    type: "string",
    value: "SIZE",
    expected,
    parse,
  };
}

function inRange(
  value: number | undefined,
  { min, max, step = 1 }: NumberRange,
): number | undefined {
  return value !== undefined && value >= min && value <= max &&
      value % step === 0
    ? value
    : undefined;
}

/** Returns the type of any text that is not empty. */
export function text<D extends string | undefined = undefined>(
  value: string,
  defaultValue?: D,
): OptionType<string | D> {
  const parse = (input: string) =>
    input === "" || input.includes("\0") ? undefined : input;
  return {
    default: defaultValue as D,
    type: "string",
    value,
    expected: "a non-empty value",
    parse,
  };
}

/** The items of a list. */
interface Items {
  /** Description of valid items. */
  readonly expected: string;
  /** Parses an item; `undefined` if it is invalid. */
  readonly parseItem: (item: string) => string | undefined;
  /** Whether an empty list is valid: where it is the most restrictive one. @default {false} */
  readonly mayBeEmpty?: boolean;
}

/** Returns the type of a list. A comma in the braces of a glob separates nothing. */
function list(
  value: string,
  { parseItem, expected, mayBeEmpty = false }: Items,
): OptionType<readonly string[]> {
  const parse = (input: string) => {
    const items = input.split(/,(?![^{}]*\})/).map((item) => item.trim())
      .filter((item) => item !== "").map(parseItem);
    const valid = items.filter((item) => item !== undefined);
    return valid.length === items.length && (valid.length > 0 || mayBeEmpty)
      ? valid
      : undefined;
  };
  return { default: [], type: "list", value, expected, parse };
}

/** Returns the type of a list of paths or globs. */
export function paths(value: string): OptionType<readonly string[]> {
  return list(value, {
    expected: "paths",
    parseItem: (path) => path.includes("\0") ? undefined : path,
  });
}

function upstream(): OptionType<URL | undefined> {
  const expected = "a URL such as http://127.0.0.1:3000, or host:port";
  const parse = (input: string) =>
    parseUpstream(input.includes("://") ? input : `http://${input}`);
  return { default: undefined, type: "string", value: "URL", expected, parse };
}

function basePath(): OptionType<string> {
  const parse = (path: string) => path === "" ? undefined : parseBasePath(path);
  return {
    default: "",
    type: "string",
    value: "PATH",
    expected: EXPECTED_BASE_PATH,
    parse,
  };
}

/** Returns the type of an app's name. */
export function app(): OptionType<string | undefined> {
  const parse = (name: string) => isAppName(name) ? name : undefined;
  return {
    default: undefined,
    type: "string",
    value: "NAME",
    expected: EXPECTED_APP,
    parse,
  };
}

const PORTS = { min: 0, max: 65_535 } as const;

/** Returns the type of the gateway's port. */
export function port(): OptionType<number> {
  return integer({ ...PORTS, default: 8080 });
}

function parseProxy(item: string): string | undefined {
  try {
    trustRule([item]);
    return item;
  } catch {
    return undefined; // the caller reports the name of the option
  }
}

/**
 * Every option of the command, by its group in `--help`. Its flag is `--name`, its environment variable
 * `REP_GATEWAY_NAME`. Parsing, validation, `--help` and the table in docs/reference.md are derived from this table.
 */
export const GROUPS = {
  "Content": {
    "mode": {
      ...choice(["embedded", "proxy"]),
      help: "Serve --static-dir or --upstream; by default the one that is set",
    },
    "base-path": {
      ...basePath(),
      help: "Path under which everything is served",
    },
    "static-dir": {
      ...text("DIR"),
      help: "Static files to serve; the configuration is injected into HTML",
    },
    "static-cache": {
      ...byteSize(NUMBER_OPTIONS.staticCacheBytes),
      help: "Memory for static files and pages; 0 turns caching off",
    },
    "immutable": {
      ...list("GLOB,…", {
        expected: EXPECTED_GLOBS,
        parseItem: (item) => isGlob(item) ? item : undefined,
      }),
      help: "Static files that never change, such as assets/* for Vite",
    },
    "upstream": {
      ...upstream(),
      help: "Upstream server to proxy; the configuration is injected into HTML",
    },
    "preserve-host": {
      ...toggle(),
      help: "Send the host that the client requests to the upstream",
    },
    "upstream-timeout": {
      ...duration(NUMBER_OPTIONS.upstreamTimeoutMs),
      help: "Timeout for the response headers of the upstream",
    },
    "max-transfers": {
      ...integer(NUMBER_OPTIONS.maxTransfers),
      help: "Maximum number of files and upstream responses in flight",
    },
    "reject-websockets": {
      ...toggle(),
      help: "Reject WebSockets, whose messages Deno does not limit in size",
    },
  },
  "Variables": {
    "manifest": {
      ...text("FILE"),
      help: "Manifest that declares the variables, such as .rep.yaml",
    },
    "env-file": {
      ...paths("PATH,…"),
      help: "File of NAME=value lines, or directory with a file per variable",
    },
    "strict": {
      ...toggle(),
      manifest: "strict_guardrails",
      help: "Reject PUBLIC values that look like secrets",
    },
    "kv": {
      ...text("PATH|URL|:memory:"),
      help: "Deno KV or postgres:// database; by default Deno's own",
    },
    "app": {
      ...app(),
      help: "Name of the app, if several apps share a database",
    },
  },
  "Changes": {
    "hot-reload": {
      ...toggle(),
      manifest: "hot_reload",
      help: "Serve /rep/changes, the stream of updates",
    },
    "hot-reload-mode": {
      ...choice(["signal", "file_watch", "poll"], { default: "signal" }),
      manifest: "hot_reload_mode",
      help: "What triggers a reload; SIGHUP always does",
    },
    "watch-path": {
      ...text("PATH"),
      help: "Path that file_watch watches; also read if --env-file is not set",
    },
    "poll-interval": {
      ...duration({ default: 30_000, min: 1_000, max: 86_400_000 }),
      manifest: "hot_reload_poll_interval",
      help: "Polling interval of poll and file_watch",
    },
    "max-streams": {
      ...integer(NUMBER_OPTIONS.maxStreams),
      help: "Maximum number of open streams; each takes 64 KiB",
    },
    "max-streams-per-client": {
      ...integer(NUMBER_OPTIONS.maxStreamsPerClient),
      help: "Maximum per client address; by default half of --max-streams",
    },
    "max-stream-age": {
      ...duration(NUMBER_OPTIONS.maxStreamAgeMs),
      help: "Maximum age of a stream; its client then reconnects",
    },
  },
  "Session keys": {
    "allowed-origins": {
      ...list("ORIGIN,…", {
        expected: "origins such as https://app.example.com, without wildcards",
        parseItem: normalizeOrigin,
        mayBeEmpty: true,
      }),
      manifest: "allowed_origins",
      help: "Origins that may request session keys; by default only its own",
    },
    "session-key-ttl": {
      ...duration(NUMBER_OPTIONS.sessionKeyTtlMs),
      manifest: "session_key_ttl",
      help: "Advertised lifetime of a session key",
    },
    "session-key-max-rate": {
      ...integer(NUMBER_OPTIONS.sessionKeyMaxRate),
      manifest: "session_key_max_rate",
      help: `Session keys per client address in any ${
        WINDOW_MS / 1_000
      } seconds`,
    },
    "key-rotation": {
      ...duration(NUMBER_OPTIONS.keyRotationMs),
      help: "Interval at which pages get a new key",
    },
    "key-retention": {
      ...duration(NUMBER_OPTIONS.keyRetentionMs),
      help: "How long the key of a page can be requested",
    },
  },
  "Network": {
    "port": {
      ...port(),
      help: "Port to listen on; 0 picks a free port",
    },
    "hostname": { ...text("HOST", "0.0.0.0"), help: "Address to listen on" },
    "health-port": {
      ...integer(PORTS),
      help: "Port for health, probes, metrics and /status; 0 means none",
    },
    "allowed-hosts": {
      ...list("HOST,…", {
        expected:
          "hosts such as app.example.com, localhost:8080 or *.example.com",
        parseItem: (item) => isHostPattern(item) ? item : undefined,
      }),
      help: "Hosts to serve, also *.example.com; by default any",
    },
    "trusted-proxies": {
      ...list("CIDR,…", {
        expected: "IP addresses or CIDR blocks such as 10.0.0.0/8",
        parseItem: parseProxy,
        mayBeEmpty: true,
      }),
      help: "Proxies whose X-Forwarded-* headers are trusted",
    },
    "tls-cert": {
      ...text("FILE"),
      help: "TLS certificate chain (PEM); requires --tls-key",
    },
    "tls-key": {
      ...text("FILE"),
      help: "TLS private key (PEM); requires --tls-cert",
    },
  },
  "Shutdown": {
    "stop-delay": {
      ...duration({ default: 0, min: 0, max: 600_000 }),
      help: "Time to keep serving after SIGTERM, with health at 503",
    },
    "drain": {
      ...duration({ default: 10_000, min: 0, max: 600_000 }),
      help: "Time after that in which streams close and requests finish",
    },
  },
  "Log": {
    "access-log": { ...toggle(), help: "Log every request" },
    "log-format": {
      ...choice(["json", "text"], { default: "json", ignoreCase: true }),
      help: "Log format",
    },
    "log-level": {
      ...choice(["debug", "info", "warn", "error"], {
        default: "info",
        ignoreCase: true,
      }),
      help: "Minimum level to log; issued session keys are always logged",
    },
  },
} as const;

/** The options of all groups. */
export const OPTIONS = {
  ...GROUPS.Network,
  ...GROUPS.Content,
  ...GROUPS.Variables,
  ...GROUPS.Changes,
  ...GROUPS["Session keys"],
  ...GROUPS.Shutdown,
  ...GROUPS.Log,
};

/** The name of an option. */
export type OptionName = keyof typeof OPTIONS;

/** The value of every option. */
export type StartOptions = OptionValues<typeof OPTIONS>;

/** The names of all options, in the order of the table in docs/reference.md. */
export const OPTION_NAMES = Object.keys(OPTIONS) as OptionName[];

/** Returns the environment variable of an option. */
export function environmentVariable(name: string): string {
  return `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`;
}
