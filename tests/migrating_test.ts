import { assertEquals } from "@std/assert";
import { OPTION_NAMES } from "../src/command/options/option_table.ts";
import { parseCommandManifest } from "../src/command/options/manifest_settings.ts";
import { parseEnvFile } from "../src/files/read_environment.ts";
import { buildSnapshot } from "../src/core/config/variables/snapshot.ts";
import { optionsOf } from "./command/_options.ts";
import { startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";
import { snapshotInput } from "./_snapshot.ts";

const GUIDE = await Deno.readTextFile("docs/migrating.md");

/** Every flag of REP's Go gateway, with a value as its users write it. */
const GO_FLAGS: Record<string, string> = {
  "mode": "proxy",
  "upstream": "nginx",
  "port": "8080",
  "static-dir": "/usr/share/nginx/html",
  "manifest": "/etc/rep/.rep.yaml",
  "strict": "1",
  "hot-reload": "True",
  "hot-reload-mode": "file_watch",
  "watch-path": "/config",
  "env-file": ".env.local",
  "poll-interval": "1m30s",
  "log-format": "JSON",
  "log-level": "WARN",
  "allowed-origins": "https://a.com, https://B.com/",
  "tls-cert": "tls.crt",
  "tls-key": "tls.key",
  "health-port": "0",
  "session-key-ttl": "30s",
  "session-key-max-rate": "10",
};

Deno.test("docs/migrating.md has a row for every flag of the Go gateway", () => {
  const rows = [...GUIDE.matchAll(/^\| `--([a-z-]+)`/gm)].map(([, name]) =>
    name
  );
  assertEquals(rows, [...Object.keys(GO_FLAGS), "version"]);
  assertEquals(
    Object.keys(GO_FLAGS).filter((name) =>
      !OPTION_NAMES.some((option) => option === name)
    ),
    [],
  );
});

for (
  const [style, toFlag] of Object.entries({
    "one dash": "-",
    "two dashes": "--",
  })
) {
  Deno.test(`all flags of the Go gateway are accepted with ${style}, and in the environment`, () => {
    const args = Object.entries(GO_FLAGS).map(([name, value]) =>
      `${toFlag}${name}=${value}`
    );
    const fromFlags = optionsOf(args);
    const variables = Object.entries(GO_FLAGS).map(([name, value]) => [
      `REP_GATEWAY_${name.toUpperCase().replaceAll("-", "_")}`,
      value,
    ]);
    const environment = Object.fromEntries(variables);
    assertEquals(optionsOf([], { environment }), fromFlags);
  });
}

Deno.test("a deployment of the Go gateway starts without changes, and says which proxy to trust", async () => {
  await using project = await TempDirectory.make({
    "index.html": "<head></head>",
    "rep.yaml": `version: "0.1.0"
variables:
  RETRIES:
    tier: public
    type: number
    default: 10
    description:
  NAME:
    tier: public
    pattern: (?i)\\A[[:alpha:]]+\\z
settings:
  strict_guardrails: True
  allowed_origins:
    - "https://App.example.com/"
`,
  });
  const flags = [
    "-mode",
    "embedded",
    "-static-dir",
    project.path,
    "-manifest",
    project.at("rep.yaml"),
  ];
  const go = [
    "-health-port",
    "0",
    "-log-level",
    "INFO",
    "-hot-reload=1",
    "-allowed-origins",
    "",
  ];
  const environment = {
    REP_PUBLIC_NAME: "Abc",
    REP_GATEWAY_LOG_FORMAT: "JSON",
    REP_GATEWAY_STRICT: "0",
  };
  await using command = await startCommand(
    [...flags, ...go, "-kv", ":memory:"],
    environment,
  );
  const page = await fetch(command.url, {
    headers: { "x-forwarded-for": "203.0.113.9" },
  });
  const html = await page.text();
  assertEquals(
    JSON.parse(/<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null")
      .public,
    {
      NAME: "Abc",
      RETRIES: "10",
    },
  );
  const { status } = await (await fetch(`${command.url}/rep/health`)).json();
  assertEquals(status, "healthy");
  assertEquals(
    (await command.logged(({ msg }) => msg === "rep.proxy.untrusted")).peer,
    "127.0.0.1",
  );
});

/** Returns the first cells of the rows of the table after a sentence, without its head. */
function firstCellsAfter(sentence: string): string[] {
  const [, , ...rows] =
    GUIDE.slice(GUIDE.indexOf(sentence)).split("\n\n")[1]?.split("\n") ?? [];
  return rows.map((row) => row.split("|")[1]?.trim() ?? "");
}

const declare = (...fields: string[]) =>
  `version: "0.1.0"\nvariables:\n  A:\n    tier: public\n${indent(fields)}`;
const withSettings = (...fields: string[]) =>
  `${declare()}settings:\n${indent(fields).replaceAll("    ", "  ")}`;
const indent = (lines: string[]) =>
  lines.map((line) => `    ${line}\n`).join("");

/** Manifests with which the Go gateway starts, by the rows of the guide that say that this one does not. */
const REJECTED_MANIFESTS: Record<string, readonly string[]> = {
  "text without quotes": [
    "@scope",
    "*.example.com",
    "%d",
    "`a`",
    "[a-z]+",
    "a: b",
    "{}",
  ].map((text) => declare(`example: ${text}`)),
  "unknown escapes": [
    declare('pattern: "^\\d+$"'),
    declare("description: 'it's'"),
  ],
  "tabs as indentation": [
    'version: "0.1.0"\nvariables:\n\tA:\n\t\ttier: public\n',
    `${declare()}---\nversion: "0.1.0"\n`,
    declare("type: string", "type: number"),
    `${declare()}  A:\n    tier: public\n`,
  ],
  "an empty file": [
    "",
    'version: "0.1.0"\n',
    'version: "0.1.0"\nvariables:\n',
    `${declare()}  B:\n`,
  ],
  "no `version`": [
    "variables:\n  A:\n    tier: public\n",
    'version: "0.1"\nvariables:\n  A:\n    tier: public\n',
  ],
  "unknown keys": [declare("requird: true"), `${declare()}services: 1\n`],
  "no `tier`": [
    declare().replace("tier: public", "type: string"),
    declare().replace("public", "secret"),
  ],
  "a variable that is set in another tier": [
    declare().replace("public", "sensitive"),
  ],
  "an unknown `type`": [
    declare("type: integer"),
    declare("type:"),
    declare("type: enum"),
    declare("values: a, b"),
  ],
  "a `default` that its own": [
    declare("type: number", "default: a").replace("  A:", "  B:"),
  ],
  "`default: null`": [declare("default: null"), declare("default: ~")],
  "`required: yes`": [
    declare("required: yes"),
    declare('required: "true"'),
    declare("deprecated: yes"),
  ],
  "`settings:` without": [withSettings(), withSettings("foo: 1")],
  "durations and numbers": [
    withSettings("session_key_ttl: 30"),
    withSettings("session_key_ttl: 1.5s"),
    withSettings('session_key_max_rate: "5"'),
    withSettings("session_key_max_rate: 0"),
    withSettings("hot_reload_poll_interval: 500ms"),
  ],
  "`allowed_origins` as a string": [
    withSettings("allowed_origins: https://a.example"),
    withSettings('allowed_origins: ["https://a.example/path"]'),
    withSettings('allowed_origins: ["*"]'),
  ],
};

/** Values with which the Go gateway starts, and the type of their variable. */
const REJECTED_VALUES: Readonly<
  Record<string, readonly (readonly [type: string, value: string])[]>
> = {
  "`type: boolean`": [["boolean", "1"], ["boolean", "0"]],
  "`type: number`": [["number", "NaN"], ["number", "Inf"], [
    "number",
    "0x1p-2",
  ], ["number", "1_000"]],
  "`type: url`": [
    ["url", "https://tile.example/{z}"],
    ["url", "https://münchen.example"],
    ["url", "javascript://example.com/"],
    ["url", "https://example.com/a b"],
    ["url", "https://example.com:99999/"],
  ],
  "`type: json`": [["json", "{"]],
  "a PUBLIC value": [["string", "word ".repeat(13_000)]],
};

/** Returns whether the gateway would reject a start with this manifest and a variable `A`. */
async function isRejected(manifest: string, value = "a") {
  const { issues } = parseCommandManifest(manifest, undefined);
  const start = () =>
    buildSnapshot(
      snapshotInput({ environment: { REP_PUBLIC_A: value }, manifest }),
    );
  return issues.length > 0 || await start().then(() => false, () => true);
}

Deno.test("every manifest that docs/migrating.md lists as rejected is rejected, and a usual one is not", async () => {
  const rows = firstCellsAfter("The Go gateway starts with these");
  assertEquals(
    rows.map((row, index) =>
      row.startsWith(Object.keys(REJECTED_MANIFESTS)[index] ?? "?")
    ),
    rows.map(() => true),
  );
  for (const manifest of Object.values(REJECTED_MANIFESTS).flat()) {
    assertEquals(await isRejected(manifest), true, manifest);
  }
  assertEquals(
    await isRejected(
      declare("type: string", "description:", "values: [a, true, 1]"),
    ),
    false,
  );
});

Deno.test("every value that docs/migrating.md lists as rejected is rejected", async () => {
  const rows = firstCellsAfter("The Go gateway also starts with these values");
  assertEquals(
    rows.map((row, index) =>
      row.startsWith(Object.keys(REJECTED_VALUES)[index] ?? "?")
    ),
    rows.map(() => true),
  );
  for (const [type, value] of Object.values(REJECTED_VALUES).flat()) {
    assertEquals(
      await isRejected(declare(`type: ${type}`), value),
      true,
      `${type} ${value.slice(0, 20)}`,
    );
  }
});

/** Env files, and what the guide says is in them here; `undefined` if they are rejected. */
const ENV_FILES: readonly (readonly [
  text: string,
  values: Record<string, string> | undefined,
])[] = [
  ["export A=1", { A: "1" }],
  ['A=1 # note\nB="2" # note\nC=a#b', { A: "1", B: "2", C: "a#b" }],
  ['A="a\\nb"', { A: "a\nb" }],
  ['A="a\nb"', { A: "a\nb" }],
  ["A=`a`", { A: "a" }],
  ["A=1\nA=2", undefined],
  ['A="a', undefined],
  ["A", undefined],
  ["A: 1", undefined],
  ["; note", undefined],
  ["A=a=b\nB=$A\nC = 1", { A: "a=b", B: "$A", C: "1" }],
];

Deno.test("env files are read as docs/migrating.md says", () => {
  const read = ENV_FILES.map(([text]) => {
    const { variables, issues } = parseEnvFile(text);
    return issues.length > 0 ? undefined : Object.fromEntries(variables);
  });
  assertEquals(read, ENV_FILES.map(([, values]) => values));
});
