import { assertEquals, assertThrows } from "@std/assert";
import { OPTION_NAMES, type OptionName, OPTIONS, type Settings } from "../../src/cli/option_table.ts";
import {
  readCommandLine,
  readSettings,
  type SettingSources,
  unknownVariables,
  UsageError,
} from "../../src/cli/read_options.ts";

/** The settings of a command line, beside an environment and a manifest. */
function settingsOf(args: readonly string[], more: Partial<SettingSources> = {}): Settings {
  return readSettings({ flags: readCommandLine(args).flags, environment: {}, manifest: {}, ...more });
}

/** The flags that a command line gives, as texts. */
function flagsOf(...args: string[]): Record<string, string> {
  return Object.fromEntries(readCommandLine(args).flags);
}

function refusalOf(run: () => unknown): string {
  return assertThrows(run, UsageError).message;
}

const DEFAULTS: Partial<Settings> = {
  "port": 8080,
  "hostname": "0.0.0.0",
  "health-port": undefined,
  "manifest": undefined,
  "env-file": undefined,
  "strict": false,
  "hot-reload": false,
  "hot-reload-mode": "signal",
  "watch-path": undefined,
  "poll-interval": 30_000,
  "allowed-origins": [],
  "trusted-proxies": [],
  "kv": undefined,
  "session-key-ttl": 30_000,
  "session-key-max-rate": 10,
  "key-rotation": 600_000,
  "key-retention": 86_400_000,
  "max-streams": 5_000,
  "max-stream-age": 1_800_000,
  "drain": 10_000,
  "tls-cert": undefined,
  "tls-key": undefined,
  "log-format": "json",
  "log-level": "info",
};

Deno.test("readSettings() has a default for every option", () => {
  const { ...settings } = settingsOf([]);
  for (const name of Object.keys(DEFAULTS) as OptionName[]) {
    assertEquals([name, settings[name]], [name, DEFAULTS[name]]);
  }
});

/** For every option: two right values, what they are read as, what is expected, and values that are not right. */
const VALUES: {
  [N in OptionName]?: readonly [
    right: readonly (readonly [text: string, value: Settings[N]])[],
    expected: string,
    wrong: readonly string[],
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
  "hostname": [[["::1", "::1"], ["localhost", "localhost"]], "some text", ["", "a\0b"]],
  "health-port": [[["9001", 9001], ["0", 0]], "an integer from 0 to 65535", ["", "x", "65536"]],
  "manifest": [[["a.yaml", "a.yaml"], ["b=c", "b=c"]], "some text", ["", "a\0b"]],
  "env-file": [[["a.env", "a.env"], ["-", "-"]], "some text", ["", "a\0b"]],
  "strict": [[["true", true], ["false", false]], "true or false", ["", "1", "0", "yes", "TRUE", "on"]],
  "hot-reload": [[["true", true], ["false", false]], "true or false", ["", "1", "no"]],
  "hot-reload-mode": [
    [["poll", "poll"], ["file_watch", "file_watch"]],
    "one of signal, file_watch, poll",
    ["", "watch", "POLL", "file-watch"],
  ],
  "watch-path": [[["/config", "/config"], [".", "."]], "some text", ["", "a\0b"]],
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
    ],
    "origins such as https://app.example.com, with commas between them",
    [
      "",
      ",",
      "*",
      "null",
      "a.example",
      "https://a.example/",
      "https://a.example/path",
      "https://a.example?x",
      "https://a.example#x",
      "https://user@a.example",
      "https://A.example",
      "https://a.example:443",
      "http://a.example:80",
      "https://",
      "capacitor://localhost/",
      "capacitor://",
      "capacitor:localhost",
      "mailto:a@b.example",
      "https://a.example https://b.example",
      "https://a.example,b.example",
    ],
  ],
  "trusted-proxies": [
    [["10.0.0.0/8", ["10.0.0.0/8"]], ["127.0.0.1, fd00::/8", ["127.0.0.1", "fd00::/8"]]],
    "IP addresses or CIDR blocks such as 10.0.0.0/8, with commas between them",
    [
      "",
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
  "kv": [[[":memory:", ":memory:"], ["https://kv.example/1", "https://kv.example/1"]], "some text", ["", "a\0b"]],
  "session-key-ttl": [
    [["1s", 1_000], ["30s", 30_000]],
    "a duration from 1s to 30s, such as 30s",
    ["", "0s", "31s", "30s1ms", "1m", "30"],
  ],
  "session-key-max-rate": [[["1", 1], ["10000", 10_000]], "an integer from 1 to 10000", ["", "0", "10001", "ten"]],
  "key-rotation": [
    [["1m", 60_000], ["24h", 86_400_000]],
    "a duration from 1m to 24h, such as 10m",
    ["", "59s", "25h", "10"],
  ],
  "key-retention": [
    [["1m", 60_000], ["720h", 2_592_000_000]],
    "a duration from 1m to 720h, such as 24h",
    ["", "59s", "721h", "24"],
  ],
  "max-streams": [[["1", 1], ["1000000", 1_000_000]], "an integer from 1 to 1000000", ["", "0", "1000001"]],
  "max-stream-age": [
    [["1s", 1_000], ["24h", 86_400_000]],
    "a duration from 1s to 24h, such as 30m",
    ["", "999ms", "25h", "30"],
  ],
  "drain": [[["0s", 0], ["10m", 600_000]], "a duration from 0s to 10m, such as 10s", ["", "11m", "10"]],
  "tls-cert": [[["a.pem", "a.pem"], ["b.pem", "b.pem"]], "some text", ["", "a\0b"]],
  "tls-key": [[["a.pem", "a.pem"], ["b.pem", "b.pem"]], "some text", ["", "a\0b"]],
  "log-format": [[["text", "text"], ["json", "json"]], "one of json, text", ["", "JSON", "logfmt"]],
  "log-level": [[["debug", "debug"], ["error", "error"]], "one of debug, info, warn, error", ["", "WARN", "trace"]],
};

/** TLS takes two options or none. */
const PARTNERS: Partial<Record<OptionName, string>> = { "tls-cert": "--tls-key=x", "tls-key": "--tls-cert=x" };

/** The variables that are asked for by hand: the rule behind them is a test's to check. */
function variableOf(name: string): string {
  return `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`;
}

for (
  const [name, [right, expected, wrong]] of Object.entries(VALUES) as [OptionName, NonNullable<typeof VALUES.port>][]
) {
  const others = [PARTNERS[name] ?? []].flat();
  const isSwitch = name === "strict" || name === "hot-reload";

  for (const [text, value] of right) {
    Deno.test(`readSettings() takes ${text} for ${name} from a flag and from the environment`, () => {
      assertEquals(settingsOf([`--${name}=${text}`, ...others])[name], value);
      if (!isSwitch) assertEquals(settingsOf([`--${name}`, text, ...others])[name], value);
      assertEquals(settingsOf(others, { environment: { [variableOf(name)]: text } })[name], value);
    });
  }

  for (const text of wrong) {
    Deno.test(`readSettings() refuses ${JSON.stringify(text)} for ${name}`, () => {
      const message = `: expected ${expected}, got ${JSON.stringify(text)}`;
      assertEquals(refusalOf(() => settingsOf([`--${name}=${text}`, ...others])), `Cannot read --${name}${message}`);
      if (text === "" || text.startsWith("tcp:")) return; // not set, and a service link
      const environment = { [variableOf(name)]: text };
      assertEquals(refusalOf(() => settingsOf(others, { environment })), `Cannot read ${variableOf(name)}${message}`);
    });
  }

  const [[text, value], [otherText, otherValue]] = right as [[string, unknown], [string, unknown]];

  Deno.test(`readSettings() lets the flag of ${name} win over the environment`, () => {
    const environment = { [variableOf(name)]: otherText };
    assertEquals(settingsOf([`--${name}=${text}`, ...others], { environment })[name], value as never);
    assertEquals(settingsOf([`--${name}=${otherText}`, ...others], { environment })[name], otherValue as never);
  });

  Deno.test(`readSettings() takes an empty ${variableOf(name)} for one that is not set`, () => {
    assertEquals(settingsOf([], { environment: { [variableOf(name)]: "" } })[name], DEFAULTS[name]);
  });
}

Deno.test("the tables of this test name every option", () => {
  const ofDelivery = OPTION_NAMES.filter((name) => !(name in VALUES)); // tested where delivery is
  assertEquals(ofDelivery.filter((name) => !["mode", "static-dir", "upstream", "upstream-timeout"].includes(name)), []);
  assertEquals(Object.keys(DEFAULTS), Object.keys(VALUES));
});

/** For every setting of the manifest: its option, a value of it, and values of flag and environment that win over it. */
const SETTINGS: Record<string, readonly [name: OptionName, setting: unknown, variable: string, flag: string]> = {
  strict_guardrails: ["strict", true, "false", "true"],
  hot_reload: ["hot-reload", true, "false", "true"],
  hot_reload_mode: ["hot-reload-mode", "poll", "file_watch", "signal"],
  hot_reload_poll_interval: ["poll-interval", 5_000, "6s", "7s"],
  allowed_origins: ["allowed-origins", ["https://m.example"], "https://e.example", "https://f.example"],
  session_key_ttl: ["session-key-ttl", 5_000, "6s", "7s"],
  session_key_max_rate: ["session-key-max-rate", 5, "6", "7"],
};

Deno.test("OPTIONS names every setting of a manifest", () => {
  assertEquals(OPTION_NAMES.flatMap((name) => OPTIONS[name].manifest ?? []).sort(), Object.keys(SETTINGS).sort());
});

for (const [setting, [name, value, variable, flag]] of Object.entries(SETTINGS)) {
  Deno.test(`readSettings() takes ${setting} from the manifest, over which the environment wins, and over that the flag`, () => {
    const manifest = { [setting]: value };
    const environment = { [variableOf(name)]: variable };
    const { read } = OPTIONS[name];
    assertEquals([
      settingsOf([], { manifest })[name],
      settingsOf([], { manifest, environment: { [variableOf(name)]: "" } })[name],
      settingsOf([], { manifest, environment })[name],
      settingsOf([`--${name}=${flag}`], { manifest, environment })[name],
    ], [value, value, read(variable), read(flag)] as Settings[OptionName][]);
  });
}

Deno.test("readSettings() takes false and no origins from the manifest for what they are", () => {
  const manifest = { hot_reload: false, allowed_origins: [] };
  const settings = settingsOf([], { manifest });
  assertEquals([settings["hot-reload"], settings["allowed-origins"]], [false, []]);
});

Deno.test("readSettings() refuses one half of TLS", () => {
  const message = "Cannot use TLS: expected --tls-cert and --tls-key together";
  assertEquals(refusalOf(() => settingsOf(["--tls-cert=a.pem"])), message);
  assertEquals(refusalOf(() => settingsOf(["--tls-key=a.pem"])), message);
  assertEquals(settingsOf(["--tls-cert=a.pem", "--tls-key=b.pem"])["tls-key"], "b.pem");
});

Deno.test("readSettings() takes what Kubernetes puts into REP_GATEWAY_PORT for nothing", () => {
  const environment = { REP_GATEWAY_PORT: "tcp://10.43.12.7:8080" };
  assertEquals(settingsOf([], { environment }).port, 8080);
  assertEquals(settingsOf(["--port=9000"], { environment }).port, 9000);
});

Deno.test("readSettings() does not put long values into messages as a whole", () => {
  assertEquals(
    refusalOf(() => settingsOf([`--port=${"9".repeat(10_000)}`])),
    `Cannot read --port: expected an integer from 0 to 65535, got "${"9".repeat(200)}"`,
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
  Deno.test(`readCommandLine() takes ${args.join(" ")} for ${strict}`, () =>
    assertEquals(flagsOf(...args), { strict }));
}

Deno.test("readCommandLine() takes a value after an equals sign or in the next argument", () => {
  assertEquals(flagsOf("--port=9000", "--kv", "a b", "--hostname", "::", "--env-file=a=b"), {
    "port": "9000",
    "kv": "a b",
    "hostname": "::",
    "env-file": "a=b",
  });
});

Deno.test("readCommandLine() takes a value that begins with one dash for a value", () => {
  assertEquals(flagsOf("--port", "-1", "--kv", "-", "--env-file=--x"), { "port": "-1", "kv": "-", "env-file": "--x" });
});

Deno.test("readCommandLine() does not take the next option for a value", () => {
  assertEquals(flagsOf("--port", "--strict"), { port: "", strict: "true" });
});

for (const args of [["--port"], ["--port="], ["--port", ""], ["--port", "--strict"]]) {
  Deno.test(`readSettings() refuses ${JSON.stringify(args)}`, () => {
    const message = 'Cannot read --port: expected an integer from 0 to 65535, got ""';
    assertEquals(refusalOf(() => settingsOf(args)), message);
  });
}

Deno.test("readCommandLine() takes the last of a flag that is given twice", () => {
  assertEquals(flagsOf("--port=1", "--port", "2", "--allowed-origins=https://a.example", "--allowed-origins="), {
    "port": "2",
    "allowed-origins": "",
  });
});

Deno.test("readCommandLine() skips a leading --, which deno serve passes on", () => {
  assertEquals(flagsOf("--", "--port=1"), { port: "1" });
  assertEquals(flagsOf("--"), {});
});

Deno.test("readCommandLine() tells when help or the version is asked for", () => {
  const asked = (...args: string[]) => {
    const { help, version } = readCommandLine(args);
    return [help, version];
  };
  assertEquals(
    [asked(), asked("--help"), asked("-h"), asked("--port=x", "--help"), asked("--version"), asked("--version", "-h")],
    [[false, false], [true, false], [true, false], [true, false], [false, true], [true, true]],
  );
});

const REFUSED: readonly (readonly [args: string[], message: string])[] = [
  [["--prot=8080"], "Cannot use --prot: there is no such option; did you mean --port?"],
  [["--Port", "1"], "Cannot use --Port: there is no such option; did you mean --port?"],
  [["-port", "1"], "Cannot use -port: there is no such option; did you mean --port?"],
  [["--hot_reload"], "Cannot use --hot_reload: there is no such option; did you mean --hot-reload?"],
  [
    ["--alowed-origins=https://a.example"],
    "Cannot use --alowed-origins: there is no such option; did you mean --allowed-origins?",
  ],
  [["--hepl"], "Cannot use --hepl: there is no such option; did you mean --help?"],
  [["--no-port"], "Cannot use --no-port: there is no such option; did you mean --port?"],
  [["--no-port=3"], "Cannot use --no-port: there is no such option; did you mean --port?"],
  [["--no-strict=true"], "Cannot use --no-strict with a value: expected --strict or --no-strict"],
  [["--port.x=1"], "Cannot use --port.x: there is no such option; did you mean --port?"],
  [["--__proto__=1"], "Cannot use --__proto__: there is no such option; did you mean --port?"],
  [["---port=1"], "Cannot use ---port: there is no such option; did you mean --port?"],
  [["serve"], 'Cannot use "serve": expected options only; see --help'],
  [["--strict", "true"], 'Cannot use "true": expected options only; see --help'],
  [["--port=1", "9000"], 'Cannot use "9000": expected options only; see --help'],
  [["--port=1", "--", "--strict"], 'Cannot use "--strict": expected options only; see --help'],
  [["-"], 'Cannot use "-": expected options only; see --help'],
  [[""], 'Cannot use "": expected options only; see --help'],
  [["--help", "port"], 'Cannot use "port": expected options only; see --help'],
];

for (const [args, message] of REFUSED) {
  Deno.test(`readCommandLine() refuses ${JSON.stringify(args)}`, () => {
    assertEquals(refusalOf(() => readCommandLine(args)), message);
  });
}

Deno.test("readCommandLine() does not tell what was given to an unknown flag", () => {
  assertEquals(refusalOf(() => readCommandLine(["--master-key=s3cret"])).includes("s3cret"), false);
});

Deno.test("unknownVariables() names what is most likely misspelt, and no option, master key or service link", () => {
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
  assertEquals(unknownVariables(Object.fromEntries(names.map((name) => [name, "x"]))), [
    "REP_GATEWAY_PROT",
    "REP_GATEWAY_hot_reload",
    "REP_GATEWAY_",
  ]);
});
