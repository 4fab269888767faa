import { assertEquals, assertThrows } from "@std/assert";
import type { Option } from "../../../src/command/options/option_kinds.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
} from "../../../src/command/options/option_table.ts";
import {
  environmentWarnings,
  parseCommandLine,
  UsageError,
} from "../../../src/command/options/read_options.ts";
import {
  parseByteSize,
  parseDuration,
} from "../../../src/core/values/units.ts";
import { redactUrl } from "../../../src/core/values/urls.ts";
import { optionsOf } from "../_options.ts";

/** Parses a command line and returns its flags with their texts. */
function flagsOf(...args: string[]): Record<string, string> {
  return Object.fromEntries(parseCommandLine(args).flags);
}

function messageOf(run: () => unknown) {
  return assertThrows(run, UsageError).message;
}

/** What an option accepts: texts with their values, and how messages describe them; and texts that it rejects. */
interface Rule {
  readonly expected: string;
  readonly valid: Readonly<Record<string, unknown>>;
  readonly invalid: readonly string[];
}

function rule(
  expected: string,
  valid: Rule["valid"],
  invalid: Rule["invalid"],
) {
  return { expected, valid, invalid };
}

function oneOf(words: string, ...invalid: string[]) {
  const valid = words.split(", ").map((word) => [word, word]);
  return rule(`one of ${words}`, Object.fromEntries(valid), ["", ...invalid]);
}

const TEXT = rule("a non-empty value", { "a b=c": "a b=c" }, ["", "a\0b"]);
const SWITCH = rule("true or false", {
  "true": true,
  "1": true,
  "t": true,
  "T": true,
  "TRUE": true,
  True: true,
  "0": false,
  "f": false,
  "F": false,
  "FALSE": false,
  False: false,
  "false": false,
}, ["", "yes", "tRUE", "on", "2"]);
const PORT = rule("an integer from 0 to 65535", { "9000": 9_000, "0": 0 }, [
  "",
  "80a",
  "-1",
  "65536",
  "1.5",
  "0x50",
  " 80",
  "80 ",
  "1e3",
  "99999999999",
]);
const UP_TO_A_MILLION = rule(
  "an integer from 1 to 1000000",
  { "1": 1, "1000000": 1_000_000 },
  ["", "0", "1000001", "x"],
);

/** What is accepted for each option whose kind does not say it. */
const RULES: Partial<Record<OptionName, Rule>> = {
  "port": PORT,
  "health-port": PORT,
  "mode": oneOf("embedded, proxy", "PROXY", "static"),
  "base-path": rule(
    "a path such as /app",
    { "/app": "/app", "/a/b-%C3%BC/": "/a/b-%C3%BC", "/": "", "": "" },
    [
      "app",
      "//app",
      "/a//b",
      "/app//",
      "/a/../b",
      "/a b",
      "/app?x",
      "/app#x",
      "http://a/app",
      "/%2e",
      "\\app",
    ],
  ),
  "static-cache": rule(
    "a size from 0 to 64GiB, such as 64MiB",
    { "0": 0, "64MiB": 67_108_864 },
    ["", "65GiB", "1TiB", "-1", "64MB"],
  ),
  "immutable": rule(
    "globs of paths in the directory, such as assets/*, separated by commas",
    {
      "assets/*": ["assets/*"],
      "assets/*.{js,css}, fonts/**": ["assets/*.{js,css}", "fonts/**"],
    },
    ["", "/assets/*", "./assets/*", "assets/*,../*", "a\0b"],
  ),
  "accept-public": rule(
    "names of PUBLIC variables, such as STRIPE_KEY, separated by commas",
    { "A, REP_PUBLIC_B": ["A", "B"] },
    ["", "REP_PUBLIC_", "A,REP_SERVER_B", "REP_A"],
  ),
  "upstream": rule(
    "a URL such as http://127.0.0.1:3000, or host:port",
    {
      "https://up.example/base": new URL("https://up.example/base"),
      "localhost:3000": new URL("http://localhost:3000/"),
    },
    ["", "http://", "ftp://up.example", "up.example:x", "3000", ":3000"],
  ),
  "upstream-timeout": rule(
    "a duration from 1ms to 1h, such as 30s",
    { "1ms": 1, "1h": 3_600_000 },
    ["", "0s", "1h1ms", "30"],
  ),
  "max-transfers": UP_TO_A_MILLION,
  "env-file": rule(
    "paths, separated by commas",
    { "a.env": ["a.env"], "-,/etc/a b": ["-", "/etc/a b"] },
    ["", ",", "a\0b"],
  ),
  "revision": rule(
    "1 to 128 printable ASCII characters without spaces",
    {
      "8f3a1c9": "8f3a1c9",
      "ghcr.io/shop/app:1.2@sha256:ab": "ghcr.io/shop/app:1.2@sha256:ab",
    },
    ["", "a b", "a\nb", "é"],
  ),
  "app": rule(
    "a host, or 1 to 253 letters, digits, . _ and -, of which the first is a letter or a digit",
    { "shop": "shop", "Shop-2.x_y": "Shop-2.x_y", "8080": "8080" },
    ["", "a/b", ":80", "-a", "ä", "a b", "[x/]"],
  ),
  "hot-reload-mode": oneOf("signal, file_watch, poll", "POLL", "file-watch"),
  "poll-interval": rule(
    "a duration from 1s to 24h, such as 30s",
    { "1s": 1_000, "24h": 86_400_000 },
    ["", "30", "999ms", "25h", "-1s", "1.5s"],
  ),
  "max-streams": UP_TO_A_MILLION,
  "max-streams-per-client": UP_TO_A_MILLION,
  "max-stream-age": rule(
    "a duration from 1ms to 24h, such as 30m",
    { "1ms": 1, "24h": 86_400_000 },
    ["", "0s", "24h1ms", "30"],
  ),
  "poll": rule(
    "10s, 15s, 30s, 60s, 5m or 1h",
    {
      "10s": 10_000,
      "15s": 15_000,
      "30s": 30_000,
      "60s": 60_000,
      "1m": 60_000,
      "5m": 300_000,
      "300s": 300_000,
      "1h": 3_600_000,
      "60m": 3_600_000,
    },
    ["", "0", "0s", "30", "5s", "20s", "2m", "24h", "true", "off", "-30s"],
  ),
  "allowed-origins": rule(
    "origins such as https://app.example.com, without wildcards, separated by commas",
    {
      "https://a.example": ["https://a.example"],
      " https://a.example , http://localhost:3000,capacitor://localhost,": [
        "https://a.example",
        "http://localhost:3000",
        "capacitor://localhost",
      ],
      "": [],
      " , ": [],
      "https://a.example/,HTTPS://B.Example": [
        "https://a.example",
        "https://b.example",
      ],
      "https://a.example:443,http://b.example:80/": [
        "https://a.example",
        "http://b.example",
      ],
      "http://a.example:443,Capacitor://localhost/": [
        "http://a.example:443",
        "capacitor://localhost",
      ],
      "https://bücher.example": ["https://xn--bcher-kva.example"],
    },
    [
      "null",
      "https://*.example.com",
      "a.example",
      "https://a.example/path",
      "https://user@a.example",
      "https://",
      "capacitor:localhost",
      "https://a.example https://b.example",
      "https://a.example,b.example",
    ],
  ),
  "session-key-ttl": rule(
    "a duration from 1s to 30s, such as 30s",
    { "1s": 1_000, "30s": 30_000 },
    ["", "0s", "31s", "30s1ms", "1m", "30"],
  ),
  "session-key-max-rate": rule(
    "an integer from 1 to 5000",
    { "1": 1, "5000": 5_000 },
    ["", "0", "5001", "ten"],
  ),
  "key-rotation": rule(
    "a duration from 1s to 24h in steps of 1s, such as 10m",
    { "1s": 1_000, "24h": 86_400_000 },
    ["", "0s", "999ms", "1s500ms", "24h1s", "10"],
  ),
  "key-retention": rule(
    "a duration from 0s to 720h, such as 24h",
    { "0s": 0, "720h": 2_592_000_000 },
    ["", "-1s", "720h1ms", "24"],
  ),
  "allowed-hosts": rule(
    "hosts such as app.example.com, localhost:8080 or *.example.com, separated by commas",
    {
      "app.example.com": ["app.example.com"],
      "*.a.example:8080, [::1]": ["*.a.example:8080", "[::1]"],
    },
    ["", ",", "*", "http://app.example.com", "app.example.com,a/b"],
  ),
  "trusted-proxies": rule(
    "IP addresses or CIDR blocks such as 10.0.0.0/8, separated by commas",
    {
      "10.0.0.0/8": ["10.0.0.0/8"],
      "127.0.0.1, fd00::/8": ["127.0.0.1", "fd00::/8"],
      "": [],
    },
    ["10.0.0.0/33", "010.0.0.1", "proxy.example", "10.0.0.1,x"],
  ),
  "stop-delay": rule(
    "a duration from 0s to 10m, such as 0s",
    { "0s": 0, "10m": 600_000 },
    ["", "11m", "10"],
  ),
  "drain": rule(
    "a duration from 0s to 10m, such as 10s",
    { "0s": 0, "10m": 600_000 },
    ["", "11m", "10"],
  ),
  "audit-log": rule(
    "one of stdout, stderr",
    { "stdout": "stdout", "stderr": "stderr" },
    ["", "STDERR", "audit.log"],
  ),
  "log-format": rule(
    "one of json, text",
    { "text": "text", "json": "json", "JSON": "json" },
    ["", "logfmt"],
  ),
  "log-level": rule(
    "one of debug, info, warn, error",
    { "debug": "debug", "error": "error", "WARN": "warn", "Info": "info" },
    ["", "warning", "trace"],
  ),
};

/** Options that are valid together only. */
const PARTNERS: Partial<Record<OptionName, string>> = {
  "tls-cert": "--tls-key=x",
  "tls-key": "--tls-cert=x",
  "releases": "--sites=x",
};

/** Returns the environment variable of an option, independently of the code under test. */
function variableOf(name: string) {
  return `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`;
}

/** Returns what the kind of an option says that it accepts. */
function ruleOfKind({ type, expected }: Option<unknown>): Rule {
  if (type === "boolean") return SWITCH;
  if (expected === TEXT.expected) return TEXT;
  const words = /^one of (.+)$/.exec(expected)?.[1];
  if (words !== undefined) return oneOf(words, "other");
  const [, unit = "", min = "", max = ""] =
    /^(an integer|a duration|a size) from (\w+) to (\w+)\b/.exec(expected) ??
      [];
  const parse = PARSERS[unit];
  if (parse === undefined) throw new Error(`Add a rule for: ${expected}`);
  const valid = { [min]: parse(min), [max]: parse(max) };
  return rule(expected, valid, ["", "x", "-1", `${max}0`]);
}

/** How the values of a range are read, by what it is a range of. */
const PARSERS: Readonly<Record<string, (text: string) => unknown>> = {
  "an integer": Number,
  "a duration": parseDuration,
  "a size": parseByteSize,
};

for (const name of OPTION_NAMES) {
  const { expected, valid, invalid } = RULES[name] ??
    ruleOfKind(OPTIONS[name]);
  const others = [PARTNERS[name] ?? []].flat();

  Deno.test(`readOptions() accepts for ${name} ${expected}, as a flag and in the environment`, () => {
    for (const [text, value] of Object.entries(valid)) {
      const accepted = [optionsOf([`--${name}=${text}`, ...others])];
      if (typeof value !== "boolean") {
        accepted.push(optionsOf([`--${name}`, text, ...others]));
      }
      if (text !== "") { // in Compose files, an empty variable means "not set"
        const environment = { [variableOf(name)]: text };
        accepted.push(optionsOf(others, { environment }));
      }
      for (const options of accepted) {
        assertEquals<unknown>([text, options[name]], [text, value]);
      }
    }
  });

  Deno.test(`readOptions() rejects for ${name} everything but ${expected}`, () => {
    for (const text of invalid) {
      const got = JSON.stringify(redactUrl(text));
      const message = `: expected ${expected}, got ${got}`;
      assertEquals(
        messageOf(() => optionsOf([`--${name}=${text}`, ...others])),
        `Cannot read --${name}${message}`,
      );
      if (text === "") continue;
      const environment = { [variableOf(name)]: text };
      assertEquals(
        messageOf(() => optionsOf(others, { environment })),
        `Cannot read ${variableOf(name)}${message}`,
      );
    }
  });
}

Deno.test("readOptions() ignores variables that are empty", () => {
  const empty = OPTION_NAMES.map((name) => [variableOf(name), ""]);
  const environment = Object.fromEntries(empty);
  assertEquals(optionsOf([], { environment }), optionsOf([]));
});

/** Every setting of a manifest with its option, a value, and values for the environment and the flag. */
const SETTINGS: Record<
  string,
  readonly [name: OptionName, setting: unknown, variable: string, flag: string]
> = {
  strict_guardrails: ["strict", true, "false", "true"],
  accept_public: ["accept-public", ["A"], "B", "C"],
  hot_reload: ["hot-reload", true, "false", "true"],
  hot_reload_mode: ["hot-reload-mode", "poll", "file_watch", "signal"],
  hot_reload_poll_interval: ["poll-interval", 5_000, "6s", "7s"],
  allowed_origins: [
    "allowed-origins",
    ["https://m.example"],
    "https://e.example",
    "https://f.example",
  ],
  session_key_ttl: ["session-key-ttl", 5_000, "6s", "7s"],
  session_key_max_rate: ["session-key-max-rate", 5, "6", "7"],
};

Deno.test("OPTIONS includes every setting of a manifest", () => {
  const options: Option<unknown>[] = Object.values(OPTIONS);
  assertEquals(
    options.flatMap(({ manifest }) => manifest ?? []).sort(),
    Object.keys(SETTINGS).sort(),
  );
});

for (
  const [setting, [name, value, variable, flag]] of Object.entries(SETTINGS)
) {
  Deno.test(`readOptions() prefers the flag to the environment, and the environment to the setting ${setting}`, () => {
    const manifest = { [setting]: value };
    const empty = { [variableOf(name)]: "" };
    const environment = { [variableOf(name)]: variable };
    const flags = [`--${name}=${flag}`];
    const { parse } = OPTIONS[name];
    assertEquals<unknown[]>([
      optionsOf([], { manifest })[name],
      optionsOf([], { manifest, environment: empty })[name],
      optionsOf([], { manifest, environment })[name],
      optionsOf(flags, { manifest, environment })[name],
    ], [value, value, parse(variable), parse(flag)]);
  });
}

Deno.test("readOptions() rejects a certificate without a key, and a key without a certificate", () => {
  const message = "Cannot use TLS: expected --tls-cert and --tls-key together";
  assertEquals(messageOf(() => optionsOf(["--tls-cert=a.pem"])), message);
  assertEquals(messageOf(() => optionsOf(["--tls-key=a.pem"])), message);
  assertEquals(
    optionsOf(["--tls-cert=a.pem", "--tls-key=b.pem"])["tls-key"],
    "b.pem",
  );
});

const NO_SITES: Record<string, string> = {
  "--releases=a": "Cannot use --releases: expected --sites as well",
  "--sites=a --app=b":
    "Cannot use --app with --sites: each site is an app with the name of its host",
  "--sites=a --allowed-origins=https://b.example":
    "Cannot use --allowed-origins with --sites: expected allowed_origins in the settings of a site's manifest",
};

Deno.test("readOptions() rejects with --sites what concerns one app only, and --releases without it", () => {
  for (const [line, message] of Object.entries(NO_SITES)) {
    assertEquals(messageOf(() => optionsOf(line.split(" "))), message);
  }
});

Deno.test("readOptions() truncates long values in messages", () => {
  assertEquals(
    messageOf(() => optionsOf([`--port=${"9".repeat(10_000)}`])),
    `Cannot read --port: expected an integer from 0 to 65535, got "${
      "9".repeat(59)
    }…`,
  );
});

/** Command lines, word by word, and their flags. */
const LINES: [line: string, flags: Record<string, string>][] = [
  ["--strict", { strict: "true" }],
  ["--strict=true", { strict: "true" }],
  ["--strict=false", { strict: "false" }],
  ["--no-strict", { strict: "false" }],
  ["--strict --no-strict", { strict: "false" }],
  ["--no-strict --strict", { strict: "true" }],
  ["--port=9000 --hostname ::", { port: "9000", hostname: "::" }],
  ["--env-file=a=b", { "env-file": "a=b" }],
  ["--port -1 --kv -", { port: "-1", kv: "-" }], // a value may begin with one dash
  ["--env-file=--x", { "env-file": "--x" }],
  ["--env-file=a\nb --port= --kv 1e3", {
    "env-file": "a\nb",
    port: "",
    kv: "1e3",
  }],
  ["--strict=yes", { strict: "yes" }], // readOptions() rejects it
  ["--allowed-origins=a,b --allowed-origins c", { "allowed-origins": "a,b,c" }],
  ["-port 9000 -hot-reload", { port: "9000", "hot-reload": "true" }], // as in Go
  ["-kv -port -no-strict", { kv: "-port", strict: "false" }],
  ["-strict=1 -env-file -", { strict: "1", "env-file": "-" }],
  ["-- --port=1", { port: "1" }], // deno serve passes -- on
  ["--", {}],
];

Deno.test("parseCommandLine() reads flags with one or two dashes, and values after an equals sign or a space", () => {
  for (const [line, flags] of LINES) {
    assertEquals([line, flagsOf(...line.split(" "))], [line, flags]);
  }
});

Deno.test("parseCommandLine() recognizes --help and --version", () => {
  const lines = [
    "",
    "--help",
    "-h",
    "-help",
    "--port=x --help",
    "-version",
    "--version -h",
  ];
  const parsed = lines.map((line) => {
    const { help, version } = parseCommandLine(line.split(" ").filter(Boolean));
    return [help, version].map(Number).join("");
  });
  assertEquals(parsed, ["00", "10", "10", "10", "10", "01", "11"]);
});

Deno.test("readOptions() rejects a flag without its value", () => {
  const message =
    'Cannot read --port: expected an integer from 0 to 65535, got ""';
  const port = "--port";
  for (const args of [[port], [`${port}=`], [port, ""], [port, "--strict"]]) {
    assertEquals(messageOf(() => optionsOf(args)), message);
  }
});

Deno.test("parseCommandLine() rejects a repeated flag that takes one value", () => {
  const single = OPTION_NAMES.filter((name) =>
    !["boolean", "list"].includes(OPTIONS[name].type)
  );
  for (const name of single) {
    const flag = `--${name}`;
    const message = `Cannot use ${flag} twice: expected one value`;
    for (
      const args of [[`${flag}=1`, `${flag}=2`], [flag, "1", "--strict", flag]]
    ) {
      assertEquals(messageOf(() => parseCommandLine(args)), message);
    }
  }
});

Deno.test("readOptions() rejects a list without a value, unless no value allows the least", () => {
  const paths = "Cannot read --env-file: expected paths, separated by commas";
  for (const args of [["--env-file"], ["--env-file", "--strict"]]) {
    assertEquals(messageOf(() => optionsOf(args)), `${paths}, got ""`);
  }
  const { "allowed-origins": origins } = optionsOf(["--allowed-origins"]);
  assertEquals(origins, []);
});

Deno.test("readOptions() selects the directory or the upstream by --mode", () => {
  const both = ["--static-dir=dist", "--upstream=up.example"];
  const select = (...args: string[]) => {
    const { "static-dir": directory, upstream } = optionsOf(args);
    return [directory, upstream?.href];
  };
  assertEquals(select(), [undefined, undefined]);
  assertEquals(select("--mode=embedded"), [
    "/usr/share/nginx/html",
    undefined,
  ]);
  assertEquals(select("--mode=proxy"), [undefined, "http://localhost/"]);
  assertEquals(select(...both, "--mode=embedded"), ["dist", undefined]);
  assertEquals(select(...both, "--mode=proxy"), [
    undefined,
    "http://up.example/",
  ]);
  assertEquals(
    messageOf(() => optionsOf(both)),
    "Cannot serve both --static-dir and --upstream: expected one of them, or --mode to select one",
  );
});

const NO_WORD = "expected a command or options";

/** Command lines that are rejected, and the flag or word that is probably meant. */
const MISSPELLED: Record<string, string> = {
  "--prot=8080": "--prot: there is no such option; did you mean --port?",
  "--hot-reload-poll-interval=5s":
    "--hot-reload-poll-interval: there is no such option; see --help",
  "-p 1": "-p: there is no such option; see --help",
  "-1": "-1: there is no such option; see --help",
  "--_=1": "--_: there is no such option; see --help",
  "--port.x=1": "--port.x: there is no such option; did you mean --port?",
  "--hot_reload":
    "--hot_reload: there is no such option; did you mean --hot-reload?",
  "--no-port": "--no-port: there is no such option; see --help",
  "--no-strict=true": "--no-strict: there is no such option; see --help",
  "--__proto__=1": "--__proto__: there is no such option; see --help",
  "serve": `"serve": ${NO_WORD}; see --help`,
  "--port=1 9000": `"9000": ${NO_WORD}; see --help`,
  "-": `"-": ${NO_WORD}; see --help`,
  "lst": `"lst": ${NO_WORD}; did you mean list?`,
  "help": `"help": ${NO_WORD}; did you mean --help?`,
  "lst --json": `"lst": ${NO_WORD}; did you mean list?`,
  "docs": `"docs": ${NO_WORD}; did you mean --static-dir "docs"?`,
  "./docs/ --port=1":
    `"./docs/": ${NO_WORD}; did you mean --static-dir "./docs/"?`,
  "README.md": `"README.md": ${NO_WORD}; see --help`,
};

Deno.test("parseCommandLine() rejects what is no option, and says what is probably meant", () => {
  for (const [line, message] of Object.entries(MISSPELLED)) {
    assertEquals(
      messageOf(() => parseCommandLine(line.split(" "))),
      `Cannot use ${message}`,
    );
  }
});

Deno.test("parseCommandLine() rejects a command that comes too late", () => {
  assertEquals(
    messageOf(() => parseCommandLine(["--kv", "x", "list"])),
    "Cannot list: expected the command before all options",
  );
});

Deno.test("environmentWarnings() names what is misspelled, but no option, also of a command or master key", () => {
  const names = [
    ...OPTION_NAMES.map(variableOf),
    "REP_GATEWAY_BY",
    "REP_GATEWAY_MASTER_KEY",
    "REP_PUBLIC_A",
    "PATH",
    "REP_GATEWAY_PROT",
    "REP_GATEWAY_hot_reload",
    "REP_GATEWAY_",
  ];
  assertEquals(
    environmentWarnings(Object.fromEntries(names.map((name) => [name, "x"]))),
    ["PROT", "hot_reload", ""].map((name) =>
      `REP_GATEWAY_${name} is not an option and is ignored`
    ),
  );
});

Deno.test("no message about options contains the credentials of a URL", () => {
  const url = "https://user:CAN#ARY@host.example/?token=CANARY";
  const lines = [
    ["--upstream", url],
    ["--upstream=https://user:CANARY"],
    ["--allowed-origins", `https://a.example,${url}`],
    ["--allowed-origins", "https://user:CAN*ARY@host.example"],
    ["--trusted-proxies", url],
    ["--port", url],
    [url],
    ["--strict", url],
    ["--upstreem", url],
    [`--upstreem=${url}`],
  ];
  for (const args of lines) {
    const message = messageOf(() => optionsOf(args));
    assertEquals([args, /CAN|ARY/.test(message)], [args, false]);
  }
});

Deno.test("readOptions() ignores a REP_GATEWAY_PORT that Docker has set", () => {
  const environment = { REP_GATEWAY_PORT: "tcp://10.43.12.7:8080" };
  assertEquals(optionsOf([], { environment }).port, 8080);
  assertEquals(optionsOf(["--port=9000"], { environment }).port, 9000);
});
