import { EXPECTED_POLL, parsePollMs } from "../../core/values/shared_polls.ts";
import { parseDuration } from "../../core/values/units.ts";
import { EXPECTED_APP, isAppName } from "../../core/store/app_store.ts";
import { WINDOW_MS } from "../../core/keys/rate_limit.ts";
import {
  accept,
  EXPECTED_REVISION,
  LIST_OPTIONS,
  NUMBER_OPTIONS,
  parseRevision,
} from "../../options.ts";
import {
  EXPECTED_BASE_PATH,
  parseBasePath,
  parseUpstream,
} from "../../core/values/urls.ts";
import {
  byteSize,
  choice,
  duration,
  ignoringCase,
  inManifest,
  integer,
  list,
  optionalInteger,
  type OptionValues,
  orEmpty,
  paths,
  PORT,
  sets,
  text,
  textual,
  toggle,
  withDefault,
} from "./option_kinds.ts";

const EXPECTED_URL = "a URL such as http://127.0.0.1:3000, or host:port";

function parseUrl(input: string): URL | undefined {
  if (/^:?\d+$/.test(input)) return undefined; // a port, which would become the address 0.0.11.184
  return parseUpstream(input.includes("://") ? input : `http://${input}`);
}

/**
 * Every option of the gateway, by its group in `--help`. Its flag is `--name`, its environment variable
 * `REP_GATEWAY_NAME`, and `sets()` names the option of the gateway that gets its value. Parsing, validation, `--help` and
 * the table in docs/reference.md use this table.
 */
export const GROUPS = {
  "Content": {
    "mode": choice(
      ["embedded", "proxy"],
      "Serve --static-dir (embedded) or --upstream (proxy); by default, whichever is set",
    ),
    "base-path": sets(
      "basePath",
      withDefault(
        "",
        textual(
          "PATH",
          EXPECTED_BASE_PATH,
          parseBasePath,
          "Path under which everything is served",
        ),
      ),
    ),
    "static-dir": sets(
      "staticDir",
      text(
        "DIR",
        "Directory of static files to serve; the configuration is injected into HTML",
      ),
    ),
    "sites": text(
      "DIR",
      "Directory with a directory for each host, which may have app.env, .rep.yaml and dist",
    ),
    "releases": text(
      "DIR",
      "Directory to which links to dist in --sites may lead",
    ),
    "fallback": sets(
      "fallback",
      text(
        "FILE",
        "Page in --static-dir for paths without a file; by default, 200.html, __spa-fallback.html, index.csr.html, 404.html or index.html",
      ),
    ),
    "static-cache": sets(
      "staticCacheBytes",
      byteSize(
        NUMBER_OPTIONS.staticCacheBytes,
        "Memory for static files and pages; 0 turns caching off",
      ),
    ),
    "immutable": sets(
      "immutable",
      list(
        "GLOB,…",
        LIST_OPTIONS.immutable,
        "Static files that never change, such as assets/* for Vite",
      ),
    ),
    "keep-builds": sets(
      "keepBuilds",
      text(
        "DIR",
        "Directory in which the --immutable files of all builds are kept for open pages; gateways may share it",
      ),
    ),
    "upstream": sets(
      "upstream",
      textual(
        "URL",
        EXPECTED_URL,
        parseUrl,
        "Upstream server to proxy; the configuration is injected into HTML",
      ),
    ),
    "preserve-host": sets(
      "preserveHost",
      toggle(
        "Forward the host that the client requested to the upstream",
      ),
    ),
    "upstream-timeout": sets(
      "upstreamTimeoutMs",
      duration(
        NUMBER_OPTIONS.upstreamTimeoutMs,
        "Timeout for the response headers of the upstream, and for pauses in uploads",
      ),
    ),
    "max-transfers": sets(
      "maxTransfers",
      integer(
        NUMBER_OPTIONS.maxTransfers,
        "Maximum number of large responses, requests to the upstream and WebSockets in flight",
      ),
    ),
    "reject-websockets": sets(
      "rejectWebsockets",
      toggle(
        "Reject WebSockets, since Deno does not limit the size of their messages",
      ),
    ),
  },
  "Variables": {
    "manifest": text(
      "FILE",
      "Manifest that declares the variables, such as .rep.yaml",
    ),
    "env-file": paths(
      "PATH,…",
      "File of NAME=value lines, or directory with one file per variable; with npx, write -env-file",
    ),
    "strict": sets(
      "strict",
      inManifest(
        "strict_guardrails",
        toggle("Reject PUBLIC values that look like secrets"),
      ),
    ),
    "accept-public": sets(
      "acceptPublic",
      inManifest(
        "accept_public",
        list(
          "NAME,…",
          LIST_OPTIONS.acceptPublic,
          "PUBLIC variables that are no secrets, although they look like it",
        ),
      ),
    ),
    "kv": text(
      "PATH|URL|:memory:",
      "Store: a SQLite file, a denokv or PostgreSQL server, or memory; by default, Deno's own database, or memory without --unstable-kv",
    ),
    "start-without-store": sets(
      "startWithoutStore",
      toggle(
        "Serve requests although the store has not been read yet; by default, they get 503 until then",
      ),
    ),
    "revision": sets(
      "revision",
      textual(
        "TEXT",
        EXPECTED_REVISION,
        parseRevision,
        "What this process was built from, such as a Git hash or image tag",
      ),
    ),
    "app": sets(
      "app",
      textual(
        "NAME",
        EXPECTED_APP,
        accept(isAppName),
        "Name of the app, if several apps share a store",
      ),
    ),
  },
  "Changes": {
    "hot-reload": sets(
      "hotReload",
      inManifest(
        "hot_reload",
        toggle("Serve /rep/changes, the stream of changes"),
      ),
    ),
    "hot-reload-mode": inManifest(
      "hot_reload_mode",
      withDefault(
        "signal",
        choice(
          ["signal", "file_watch", "poll"],
          "What triggers a reload; SIGHUP always triggers one. On a terminal, file_watch with --env-file, --manifest or --sites",
        ),
      ),
    ),
    "watch-path": text(
      "PATH",
      "Path that file_watch watches besides --env-file and --manifest. Without --env-file, this path is also the env file",
    ),
    "poll-interval": inManifest(
      "hot_reload_poll_interval",
      duration(
        { default: 30_000, min: 1_000, max: 86_400_000 },
        "Interval for reading all sources again, in the modes poll and file_watch",
      ),
    ),
    "max-streams": sets(
      "maxStreams",
      integer(
        NUMBER_OPTIONS.maxStreams,
        "Maximum number of open streams; each takes 62 KiB. Further clients poll instead",
      ),
    ),
    "max-streams-per-client": sets(
      "maxStreamsPerClient",
      optionalInteger(
        NUMBER_OPTIONS.maxStreamsPerClient,
        "N",
        "Maximum number of open streams per client address; by default, half of --max-streams",
      ),
    ),
    "max-stream-age": sets(
      "maxStreamAgeMs",
      duration(
        NUMBER_OPTIONS.maxStreamAgeMs,
        "Maximum age of a stream; its client then reconnects",
      ),
    ),
    "poll": sets(
      "pollMs",
      textual(
        "DURATION",
        EXPECTED_POLL,
        (text) => parsePollMs(parseDuration(text)),
        `How often pages poll instead of opening a stream, so that any shared cache can answer: ${EXPECTED_POLL}`,
      ),
    ),
    "ofrep": sets(
      "ofrep",
      toggle("Serve PUBLIC variables to OpenFeature SDKs, at /ofrep/"),
    ),
  },
  "Session keys": {
    "allowed-origins": sets(
      "allowedOrigins",
      inManifest(
        "allowed_origins",
        orEmpty(list(
          "ORIGIN,…",
          LIST_OPTIONS.allowedOrigins,
          "Origins whose pages may request session keys, streams and OpenFeature flags; by default, only the gateway's own. If you set this option, include the gateway's own",
        )),
      ),
    ),
    "session-key-ttl": sets(
      "sessionKeyTtlMs",
      inManifest(
        "session_key_ttl",
        duration(
          NUMBER_OPTIONS.sessionKeyTtlMs,
          "Time after which clients discard a session key",
        ),
      ),
    ),
    "session-key-max-rate": sets(
      "sessionKeyMaxRate",
      inManifest(
        "session_key_max_rate",
        integer(
          NUMBER_OPTIONS.sessionKeyMaxRate,
          `Maximum number of session keys per client address in any ${
            WINDOW_MS / 1_000
          } seconds`,
        ),
      ),
    ),
    "key-rotation": sets(
      "keyRotationMs",
      duration(
        NUMBER_OPTIONS.keyRotationMs,
        "How long newly sent pages share a session key, until a new key replaces it",
      ),
    ),
    "key-retention": sets(
      "keyRetentionMs",
      duration(
        NUMBER_OPTIONS.keyRetentionMs,
        "How long pages can still request a session key that has been replaced",
      ),
    ),
  },
  "Network": {
    "port": integer(PORT, "Port to listen on; 0 picks a free port"),
    "hostname": text(
      "HOST",
      "Address to listen on; by default, every address, of IPv4 and IPv6",
    ),
    "health-port": optionalInteger(
      PORT,
      "N",
      "Separate port for health, probes, metrics and /status; by default, or with 0, there is none",
    ),
    "allowed-hosts": sets(
      "allowedHosts",
      list(
        "HOST,…",
        LIST_OPTIONS.allowedHosts,
        "Hosts to serve, such as *.example.com; by default, all hosts",
      ),
    ),
    "trusted-proxies": sets(
      "trustedProxies",
      orEmpty(list(
        "CIDR,…",
        LIST_OPTIONS.trustedProxies,
        "Proxies whose X-Forwarded-* headers are trusted",
      )),
    ),
    "tls-cert": text("FILE", "TLS certificate chain (PEM); requires --tls-key"),
    "tls-key": text("FILE", "TLS private key (PEM); requires --tls-cert"),
  },
  "Shutdown": {
    "stop-delay": duration(
      { default: 0, min: 0, max: 600_000 },
      "Time to keep serving after SIGTERM, while health answers 503",
    ),
    "drain": duration(
      { default: 10_000, min: 0, max: 600_000 },
      "Time for streams to end and requests to finish, after --stop-delay",
    ),
  },
  "Log": {
    "access-log": sets("accessLog", toggle("Log every request")),
    "audit-log": withDefault(
      "stdout",
      choice(
        ["stdout", "stderr"],
        "Where to log the issuance of session keys",
      ),
    ),
    "log-format": withDefault(
      "json",
      ignoringCase(choice(["json", "text"], "Log format; on a terminal, text")),
    ),
    "log-level": withDefault(
      "info",
      ignoringCase(choice(
        ["debug", "info", "warn", "error"],
        "Minimum level to log; the issuance of a session key is always logged",
      )),
    ),
  },
};

/** The switches that print something instead of starting the gateway. */
export const OTHER_OPTIONS = {
  "version": toggle("Print the version"),
  "help": toggle("Print this help"),
};

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
