import { assertEquals, assertThrows } from "@std/assert";
import type { Option } from "../../../src/cli/options/option_kinds.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  type StartOptions,
} from "../../../src/cli/options/option_table.ts";
import {
  environmentWarnings,
  type OptionSources,
  parseCommandLine,
  readOptions,
  UsageError,
} from "../../../src/cli/options/read_options.ts";
import { redactUrl } from "../../../src/values/urls.ts";

/** Reads the options from a command line and, optionally, other sources. */
function optionsOf(
  args: readonly string[],
  sources: Partial<OptionSources> = {},
): StartOptions {
  return readOptions({
    flags: parseCommandLine(args).flags,
    environment: {},
    manifest: {},
    ...sources,
  });
}

/** Parses a command line and returns its flags with their texts. */
function flagsOf(...args: string[]): Record<string, string> {
  return Object.fromEntries(parseCommandLine(args).flags);
}

function messageOf(run: () => unknown): string {
  return assertThrows(run, UsageError).message;
}

const DEFAULTS: StartOptions = {
  "port": 8080,
  "hostname": "0.0.0.0",
  "health-port": undefined,
  "mode": undefined,
  "base-path": "",
  "static-dir": undefined,
  "static-cache": 67_108_864,
  "immutable": [],
  "upstream": undefined,
  "preserve-host": false,
  "upstream-timeout": 30_000,
  "max-transfers": 1_000,
  "reject-websockets": false,
  "manifest": undefined,
  "env-file": [],
  "strict": false,
  "hot-reload": false,
  "hot-reload-mode": "signal",
  "watch-path": undefined,
  "poll-interval": 30_000,
  "allowed-origins": [],
  "allowed-hosts": [],
  "trusted-proxies": [],
  "kv": undefined,
  "app": undefined,
  "session-key-ttl": 30_000,
  "session-key-max-rate": 10,
  "key-rotation": 600_000,
  "key-retention": 86_400_000,
  "max-streams": 5_000,
  "max-streams-per-client": undefined,
  "max-stream-age": 1_800_000,
  "stop-delay": 0,
  "drain": 10_000,
  "tls-cert": undefined,
  "tls-key": undefined,
  "access-log": false,
  "log-format": "json",
  "log-level": "info",
};

Deno.test("readOptions() applies the default of every option", () =>
  assertEquals(optionsOf([]), DEFAULTS));

/** Every option with two valid values as texts and parsed, the description of a valid value, and invalid values. */
const VALUES: {
  [N in OptionName]: readonly [
    valid: readonly (readonly [text: string, value: StartOptions[N]])[],
    expected: string,
    invalid: readonly string[],
  ];
} = {
  "port": [[["9000", 9000], ["0", 0]], "an integer from 0 to 65535", [
    "",
    "80a",
    "-1",
    "65536",
    "1.5",
    "0x50",
    " 80",
    "80 ",
    "1e3",
    "tcp://10.0.0.1:8080",
    "99999999999",
  ]],
  "hostname": [
    [["::1", "::1"], ["localhost", "localhost"]],
    "a non-empty value",
    ["", "a\0b"],
  ],
  "health-port": [[["9001", 9001], ["0", 0]], "an integer from 0 to 65535", [
    "",
    "x",
    "65536",
  ]],
  "mode": [
    [["embedded", "embedded"], ["proxy", "proxy"]],
    "one of embedded, proxy",
    ["", "PROXY", "static"],
  ],
  "base-path": [
    [["/app", "/app"], ["/a/b-%C3%BC/", "/a/b-%C3%BC"], ["/", ""]],
    "a path such as /app",
    [
      "",
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
  ],
  "max-transfers": [
    [["1", 1], ["1000000", 1_000_000]],
    "an integer from 1 to 1000000",
    ["0", "1000001", "x"],
  ],
  "reject-websockets": [
    [["true", true], ["false", false], ["1", true]],
    "true or false",
    ["", "no"],
  ],
  "preserve-host": [
    [["true", true], ["false", false], ["1", true]],
    "true or false",
    ["", "no"],
  ],
  "static-dir": [
    [["dist", "dist"], ["/srv/a b", "/srv/a b"]],
    "a non-empty value",
    ["", "a\0b"],
  ],
  "static-cache": [
    [["0", 0], ["64MiB", 67_108_864]],
    "a size from 0 to 64GiB, such as 64MiB",
    ["", "65GiB", "1TiB", "-1", "64MB"],
  ],
  "immutable": [
    [
      ["assets/*", ["assets/*"]],
      ["assets/*.{js,css}, fonts/**", ["assets/*.{js,css}", "fonts/**"]],
    ],
    "globs of paths in the directory, such as assets/*, separated by commas",
    ["", "/assets/*", "./assets/*", "assets/*,../*", "a\0b"],
  ],
  "upstream": [
    [
      ["https://up.example/base", new URL("https://up.example/base")],
      ["localhost:3000", new URL("http://localhost:3000/")],
    ],
    "a URL such as http://127.0.0.1:3000, or host:port",
    ["", "http://", "ftp://up.example", "up.example:x"],
  ],
  "upstream-timeout": [
    [["1ms", 1], ["1h", 3_600_000]],
    "a duration from 1ms to 1h, such as 30s",
    ["", "0s", "1h1ms", "30"],
  ],
  "manifest": [[["a.yaml", "a.yaml"], ["b=c", "b=c"]], "a non-empty value", [
    "",
    "a\0b",
  ]],
  "env-file": [
    [["a.env", ["a.env"]], ["-,/etc/a b", ["-", "/etc/a b"]]],
    "paths, separated by commas",
    [
      "",
      ",",
      "a\0b",
    ],
  ],
  "strict": [
    [
      ["true", true],
      ["false", false],
      ["1", true],
      ["t", true],
      ["T", true],
      ["TRUE", true],
      ["True", true],
      ["0", false],
      ["f", false],
      ["F", false],
      ["FALSE", false],
      ["False", false],
    ],
    "true or false",
    ["", "yes", "tRUE", "on", "2"],
  ],
  "hot-reload": [
    [["true", true], ["false", false], ["1", true]],
    "true or false",
    ["", "no"],
  ],
  "access-log": [
    [["true", true], ["false", false], ["1", true]],
    "true or false",
    ["", "no"],
  ],
  "hot-reload-mode": [
    [["poll", "poll"], ["file_watch", "file_watch"]],
    "one of signal, file_watch, poll",
    ["", "watch", "POLL", "file-watch"],
  ],
  "watch-path": [[["/config", "/config"], [".", "."]], "a non-empty value", [
    "",
    "a\0b",
  ]],
  "poll-interval": [
    [["1s", 1_000], ["24h", 86_400_000]],
    "a duration from 1s to 24h, such as 30s",
    ["", "30", "999ms", "25h", "-1s", "1.5s"],
  ],
  "allowed-origins": [
    [
      ["https://a.example", ["https://a.example"]],
      [
        " https://a.example , http://localhost:3000,capacitor://localhost,",
        ["https://a.example", "http://localhost:3000", "capacitor://localhost"],
      ],
      ["", []],
      [" , ", []],
      ["https://a.example/,HTTPS://B.Example", [
        "https://a.example",
        "https://b.example",
      ]],
      ["https://a.example:443,http://b.example:80/", [
        "https://a.example",
        "http://b.example",
      ]],
      ["http://a.example:443,Capacitor://localhost/", [
        "http://a.example:443",
        "capacitor://localhost",
      ]],
      ["https://bücher.example", ["https://xn--bcher-kva.example"]],
    ],
    "origins such as https://app.example.com, without wildcards, separated by commas",
    [
      "null",
      "*",
      "https://*.example.com",
      "a.example",
      "https://a.example/path",
      "https://a.example?x",
      "https://a.example#x",
      "https://user@a.example",
      "https://",
      "capacitor://",
      "capacitor:localhost",
      "mailto:a@b.example",
      "https://a.example https://b.example",
      "https://a.example//",
      "https:\\\\a.example",
      "https://a.example,b.example",
    ],
  ],
  "allowed-hosts": [
    [["app.example.com", ["app.example.com"]], ["*.a.example:8080, [::1]", [
      "*.a.example:8080",
      "[::1]",
    ]]],
    "hosts such as app.example.com, localhost:8080 or *.example.com, separated by commas",
    ["", ",", "*", "http://app.example.com", "app.example.com,a/b"],
  ],
  "trusted-proxies": [
    [["10.0.0.0/8", ["10.0.0.0/8"]], ["127.0.0.1, fd00::/8", [
      "127.0.0.1",
      "fd00::/8",
    ]], ["", []]],
    "IP addresses or CIDR blocks such as 10.0.0.0/8, separated by commas",
    [
      "10.0.0.0/33",
      "10.0.0",
      "010.0.0.1",
      "proxy.example",
      "fd00::/129",
      "10.0.0.0/8/8",
      "10.0.0.0/",
      "10.0.0.1,x",
    ],
  ],
  "kv": [
    [[":memory:", ":memory:"], [
      "https://kv.example/1",
      "https://kv.example/1",
    ]],
    "a non-empty value",
    [
      "",
      "a\0b",
    ],
  ],
  "app": [
    [["shop", "shop"], ["Shop-2.x_y", "Shop-2.x_y"], ["8080", "8080"]],
    "1 to 32 letters, digits, . _ and -, of which the first is a letter or a digit",
    ["", "a/b", ":80", "-a", "ä", "a b", "a".repeat(33)],
  ],
  "session-key-ttl": [
    [["1s", 1_000], ["30s", 30_000]],
    "a duration from 1s to 30s, such as 30s",
    ["", "0s", "31s", "30s1ms", "1m", "30"],
  ],
  "session-key-max-rate": [
    [["1", 1], ["5000", 5_000]],
    "an integer from 1 to 5000",
    ["", "0", "5001", "ten"],
  ],
  "key-rotation": [
    [["1s", 1_000], ["24h", 86_400_000]],
    "a duration from 1s to 24h in steps of 1s, such as 10m",
    ["", "0s", "999ms", "1s500ms", "24h1s", "10"],
  ],
  "key-retention": [
    [["0s", 0], ["720h", 2_592_000_000]],
    "a duration from 0s to 720h, such as 24h",
    ["", "-1s", "720h1ms", "24"],
  ],
  "max-streams-per-client": [
    [["1", 1], ["1000000", 1_000_000]],
    "an integer from 1 to 1000000",
    [
      "",
      "0",
      "1000001",
    ],
  ],
  "max-streams": [
    [["1", 1], ["1000000", 1_000_000]],
    "an integer from 1 to 1000000",
    ["", "0", "1000001"],
  ],
  "max-stream-age": [
    [["1ms", 1], ["24h", 86_400_000]],
    "a duration from 1ms to 24h, such as 30m",
    ["", "0s", "24h1ms", "30"],
  ],
  "stop-delay": [
    [["0s", 0], ["10m", 600_000]],
    "a duration from 0s to 10m, such as 0s",
    ["", "11m", "10"],
  ],
  "drain": [
    [["0s", 0], ["10m", 600_000]],
    "a duration from 0s to 10m, such as 10s",
    ["", "11m", "10"],
  ],
  "tls-cert": [[["a.pem", "a.pem"], ["b.pem", "b.pem"]], "a non-empty value", [
    "",
    "a\0b",
  ]],
  "tls-key": [[["a.pem", "a.pem"], ["b.pem", "b.pem"]], "a non-empty value", [
    "",
    "a\0b",
  ]],
  "log-format": [
    [["text", "text"], ["json", "json"], ["JSON", "json"]],
    "one of json, text",
    ["", "logfmt"],
  ],
  "log-level": [
    [["debug", "debug"], ["error", "error"], ["WARN", "warn"], [
      "Info",
      "info",
    ]],
    "one of debug, info, warn, error",
    ["", "warning", "trace"],
  ],
};

/** The two TLS options are valid together only. */
const PARTNERS: Partial<Record<OptionName, string>> = {
  "tls-cert": "--tls-key=x",
  "tls-key": "--tls-cert=x",
};

/** Returns the environment variable of an option, independently of the code under test. */
function variableOf(name: string): string {
  return `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`;
}

for (
  const [name, [valid, expected, invalid]] of Object.entries(VALUES) as [
    OptionName,
    typeof VALUES.port,
  ][]
) {
  const others = [PARTNERS[name] ?? []].flat();
  const isSwitch = typeof DEFAULTS[name] === "boolean";

  for (const [text, value] of valid) {
    Deno.test(`readOptions() accepts ${text} for ${name} as a flag and in the environment`, () => {
      assertEquals(optionsOf([`--${name}=${text}`, ...others])[name], value);
      if (!isSwitch) {
        assertEquals(optionsOf([`--${name}`, text, ...others])[name], value);
      }
      if (text === "") return; // in Compose files, an empty variable means "not set"
      assertEquals(
        optionsOf(others, { environment: { [variableOf(name)]: text } })[name],
        value,
      );
    });
  }

  for (const text of invalid) {
    Deno.test(`readOptions() rejects ${JSON.stringify(text)} for ${name}`, () => {
      const message = `: expected ${expected}, got ${
        JSON.stringify(redactUrl(text))
      }`;
      assertEquals(
        messageOf(() => optionsOf([`--${name}=${text}`, ...others])),
        `Cannot read --${name}${message}`,
      );
      if (text === "" || text.startsWith("tcp:")) return; // ignored: not set, or a service link
      const environment = { [variableOf(name)]: text };
      assertEquals(
        messageOf(() => optionsOf(others, { environment })),
        `Cannot read ${variableOf(name)}${message}`,
      );
    });
  }

  const [[text, value], [otherText, otherValue]] = valid as [
    [string, unknown],
    [string, unknown],
  ];

  Deno.test(`readOptions() prefers the flag of ${name} to the environment`, () => {
    const environment = { [variableOf(name)]: otherText };
    assertEquals(
      optionsOf([`--${name}=${text}`, ...others], { environment })[name],
      value as never,
    );
    assertEquals(
      optionsOf([`--${name}=${otherText}`, ...others], { environment })[name],
      otherValue as never,
    );
  });

  Deno.test(`readOptions() ignores an empty ${variableOf(name)}`, () => {
    assertEquals(
      optionsOf([], { environment: { [variableOf(name)]: "" } })[name],
      DEFAULTS[name],
    );
  });
}

/** Every setting of a manifest with its option, a value, and values for the environment and the flag. */
const SETTINGS: Record<
  string,
  readonly [name: OptionName, setting: unknown, variable: string, flag: string]
> = {
  strict_guardrails: ["strict", true, "false", "true"],
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
    const environment = { [variableOf(name)]: variable };
    const { parse } = OPTIONS[name];
    assertEquals(
      [
        optionsOf([], { manifest })[name],
        optionsOf([], {
          manifest,
          environment: { [variableOf(name)]: "" },
        })[name],
        optionsOf([], { manifest, environment })[name],
        optionsOf([`--${name}=${flag}`], { manifest, environment })[name],
      ],
      [
        value,
        value,
        parse(variable),
        parse(flag),
      ] as StartOptions[OptionName][],
    );
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

Deno.test("readOptions() truncates long values in messages", () => {
  assertEquals(
    messageOf(() => optionsOf([`--port=${"9".repeat(10_000)}`])),
    `Cannot read --port: expected an integer from 0 to 65535, got "${
      "9".repeat(59)
    }…`,
  );
});

const SWITCHES: readonly (readonly [args: string[], strict: string])[] = [
  [["--strict"], "true"],
  [["--strict=true"], "true"],
  [["--strict=false"], "false"],
  [["--no-strict"], "false"],
  [["--strict", "--no-strict"], "false"],
  [["--no-strict", "--strict"], "true"],
];

for (const [args, strict] of SWITCHES) {
  Deno.test(`parseCommandLine() parses ${args.join(" ")} as ${strict}`, () =>
    assertEquals(flagsOf(...args), { strict }));
}

Deno.test("parseCommandLine() accepts a value after an equals sign or in the next argument", () => {
  assertEquals(
    flagsOf("--port=9000", "--kv", "a b", "--hostname", "::", "--env-file=a=b"),
    {
      "port": "9000",
      "kv": "a b",
      "hostname": "::",
      "env-file": "a=b",
    },
  );
});

Deno.test("parseCommandLine() accepts a value that begins with one dash", () => {
  assertEquals(flagsOf("--port", "-1", "--kv", "-", "--env-file=--x"), {
    "port": "-1",
    "kv": "-",
    "env-file": "--x",
  });
});

for (
  const args of [["--port"], ["--port="], ["--port", ""], [
    "--port",
    "--strict",
  ]]
) {
  Deno.test(`readOptions() rejects ${JSON.stringify(args)}`, () => {
    const message =
      'Cannot read --port: expected an integer from 0 to 65535, got ""';
    assertEquals(messageOf(() => optionsOf(args)), message);
  });
}

for (
  const name of OPTION_NAMES.filter((name) =>
    !["boolean", "list"].includes(OPTIONS[name].type)
  )
) {
  Deno.test(`parseCommandLine() rejects a repeated --${name}`, () => {
    const message = `Cannot use --${name} twice: expected one value`;
    assertEquals(
      messageOf(() => parseCommandLine([`--${name}=1`, `--${name}=2`])),
      message,
    );
    assertEquals(
      messageOf(() =>
        parseCommandLine([`--${name}`, "1", "--strict", `--${name}`, "1"])
      ),
      message,
    );
  });
}

Deno.test("parseCommandLine() combines the values of a repeated list flag", () => {
  assertEquals(
    flagsOf(
      "--allowed-origins=a,b",
      "--trusted-proxies=1",
      "--allowed-origins",
      "c",
    ),
    {
      "allowed-origins": "a,b,c",
      "trusted-proxies": "1",
    },
  );
});

for (
  const args of [["--allowed-origins"], ["--allowed-origins", "--strict"], [
    "-trusted-proxies",
    "-port=1",
  ]]
) {
  Deno.test(`parseCommandLine() rejects ${args.join(" ")}, which has no value`, () => {
    const message = messageOf(() => parseCommandLine(args));
    assertEquals(
      /^Cannot read --[a-z-]+: expected .*, got nothing$/.test(message),
      true,
      message,
    );
  });
}

Deno.test("readOptions() rejects a directory together with an upstream", () => {
  const expected = "expected one of them, or --mode to select one";
  const message = messageOf(() =>
    optionsOf(["--static-dir=dist", "--upstream=up.example"])
  );
  assertEquals(
    message,
    `Cannot serve both --static-dir and --upstream: ${expected}`,
  );
});

Deno.test("parseCommandLine() accepts flags with one dash, like Go", () => {
  const args = [
    "-port",
    "9000",
    "-hot-reload",
    "-strict=1",
    "-kv=a",
    "-env-file",
    "-",
    "-hostname",
    "::",
  ];
  assertEquals(flagsOf(...args), {
    "port": "9000",
    "hot-reload": "true",
    "strict": "1",
    "kv": "a",
    "env-file": "-",
    "hostname": "::",
  });
  assertEquals(parseCommandLine(["-version"]).version, true);
  assertEquals(parseCommandLine(["-help"]).help, true);
});

Deno.test("parseCommandLine() recognizes --help and --version", () => {
  const parsed = (...args: string[]) => {
    const { help, version } = parseCommandLine(args);
    return [help, version];
  };
  assertEquals(
    [
      parsed(),
      parsed("--help"),
      parsed("-h"),
      parsed("--port=x", "--help"),
      parsed("--version"),
      parsed("--version", "-h"),
    ],
    [
      [false, false],
      [true, false],
      [true, false],
      [true, false],
      [false, true],
      [true, true],
    ],
  );
});

const REJECTED: readonly (readonly [args: string[], message: string])[] = [
  [
    ["--prot=8080"],
    "Cannot use --prot: there is no such option; did you mean --port?",
  ],
  [
    ["--hot-reload-poll-interval=5s"], // so called in the documents of REP
    "Cannot use --hot-reload-poll-interval: there is no such option; did you mean --poll-interval?",
  ],
  [
    ["dev"],
    'Cannot run "dev": expected --upstream URL or --static-dir DIR instead',
  ],
  [
    ["-no-strict"],
    "Cannot use -no-strict: there is no such option; did you mean --strict?",
  ],
  [["-p", "1"], "Cannot use -p: there is no such option; did you mean --port?"],
  [
    ["--hot_reload"],
    "Cannot use --hot_reload: there is no such option; did you mean --hot-reload?",
  ],
  [
    ["--no-port"],
    "Cannot use --no-port: there is no such option; did you mean --port?",
  ],
  [
    ["--no-strict=true"],
    "Cannot use --no-strict with a value: expected --strict or --no-strict",
  ],
  [
    ["--__proto__=1"],
    "Cannot use --__proto__: there is no such option; did you mean --port?",
  ],
  [["serve"], 'Cannot use "serve": expected options only; see --help'],
  [["lst"], 'Cannot run "lst": there is no such command; did you mean list?'],
  [
    ["help"],
    'Cannot run "help": there is no such command; did you mean --help?',
  ],
  [
    ["--kv", "x", "list"],
    "Cannot list: expected the command before all options",
  ],
  [
    ["--port=1", "9000"],
    'Cannot use "9000": expected options only; see --help',
  ],
  [["-"], 'Cannot use "-": expected options only; see --help'],
];

for (const [args, message] of REJECTED) {
  Deno.test(`parseCommandLine() rejects ${JSON.stringify(args)}`, () => {
    assertEquals(messageOf(() => parseCommandLine(args)), message);
  });
}

Deno.test("environmentWarnings() names what is misspelled, but no option, master key or service link", () => {
  const names = [
    ...OPTION_NAMES.map(variableOf),
    "REP_GATEWAY_MASTER_KEY",
    "REP_GATEWAY_SERVICE_HOST",
    "REP_GATEWAY_SERVICE_PORT",
    "REP_GATEWAY_SERVICE_PORT_HTTP",
    "REP_GATEWAY_PORT_8080_TCP",
    "REP_GATEWAY_PORT_8080_TCP_ADDR",
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
    const read = () =>
      readOptions({
        flags: parseCommandLine(args).flags,
        environment: {},
        manifest: {},
      });
    const { message } = assertThrows(read, UsageError);
    assertEquals([args, /CAN|ARY/.test(message)], [args, false]);
  }
});

Deno.test("readOptions() ignores a REP_GATEWAY_PORT that Kubernetes has set", () => {
  const environment = { REP_GATEWAY_PORT: "tcp://10.43.12.7:8080" };
  assertEquals(optionsOf([], { environment }).port, 8080);
  assertEquals(optionsOf(["--port=9000"], { environment }).port, 9000);
});

Deno.test("parseCommandLine() skips a leading --, which deno serve passes on", () => {
  assertEquals(flagsOf("--", "--port=1"), { port: "1" });
  assertEquals(flagsOf("--"), {});
});
