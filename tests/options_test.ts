import { parseManifest } from "../src/core/config/variables/manifest.ts";
import {
  assertEquals,
  assertMatch,
  assertNotStrictEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { createGateway } from "../src/gateway.ts";
import { ConfigurationError } from "../src/core/config/variables/snapshot.ts";
import { TIERS } from "../src/core/config/variables/tiers.ts";
import {
  type GatewayOptions,
  NUMBER_OPTIONS,
  type NumberOption,
  type NumberRange,
  resolveServices,
  resolveSettings,
  resolveSources,
  SWITCHES,
} from "../src/options.ts";
import { silentLog } from "../src/core/observe/log.ts";
import { noTelemetry } from "../src/core/observe/telemetry.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { systemClock } from "../src/core/values/clock.ts";
import { OptionError } from "../src/core/values/option_error.ts";

const NUMBERS = Object.entries(NUMBER_OPTIONS) as [
  keyof typeof NUMBER_OPTIONS,
  NumberRange & Partial<NumberOption>,
][];

const sourceOf = () => "a file";

/** Returns the settings, the services and the sources. */
function resolveAll(options: GatewayOptions) {
  return {
    ...resolveSettings(options),
    ...resolveServices(options),
    ...resolveSources(options, sourceOf),
  };
}

function messageOf(options: Record<string, unknown>) {
  return assertThrows(
    () => resolveAll(options as GatewayOptions),
    OptionError,
  ).message;
}

/** The doc comment of every option, by its name. */
async function documentation() {
  const source = await Deno.readTextFile(
    new URL("../src/options.ts", import.meta.url),
  );
  const [body = ""] =
    /(?<=^export interface GatewayOptions \{\n)[^]*?(?=^\}$)/m.exec(source) ??
      [];
  const members = [...body.matchAll(/\/\*\*([^]*?)\*\/\s+(\w+)\?:/g)];
  return new Map(members.map(([, comment = "", name = ""]) => [name, comment]));
}

/** The value of a number literal such as `30_000`. */
function numberIn(literal: string | undefined) {
  return Number(literal?.replaceAll("_", ""));
}

Deno.test("GatewayOptions documents the default of every option", async () => {
  const comments = [...await documentation()];
  assertEquals(
    comments.map(([name]) => name).sort(),
    [
      ...Object.keys(VALUES),
      ...CONVERTED,
      ...SWITCHES,
      ...Object.keys(NUMBER_OPTIONS),
    ].sort(),
  );
  assertEquals(
    comments.filter(([, comment]) => !/@default \{.+\}/.test(comment)),
    [],
  );
});

Deno.test("GatewayOptions documents the defaults that resolveSettings() applies", async () => {
  const literal = /@default \{(?<literal>true|false|undefined|\[\]|[\d_]+)\}/;
  const documented = [...await documentation()].flatMap(([name, comment]) => {
    const text = literal.exec(comment)?.groups?.literal;
    return text === undefined
      ? []
      : [[name, text.replaceAll("_", "")] as const];
  });
  const defaults = resolveAll({});
  const neverServed = await defaults.neverServed();
  const applied: Record<string, unknown> = {
    ...defaults,
    neverServed,
    trustedProxies: [],
    manifest: undefined,
    strict: (await defaults.readSources()).strict,
    acceptPublic: (await defaults.readSources()).acceptPublic,
  };
  assertEquals(
    documented,
    documented.map(([name]) =>
      [name, JSON.stringify(applied[name]) ?? "undefined"] as const
    ),
  );
  const names = new Set(documented.map(([name]) => name));
  assertEquals(SWITCHES.filter((name) => !names.has(name)), []);
});

Deno.test("GatewayOptions documents the default and the range of every number as in NUMBER_OPTIONS", async () => {
  const comments = await documentation();
  for (const [name, option] of NUMBERS) {
    const [, min, max, defaultValue] =
      /: ([\d_]+) to ([\d_]+)\b[^]*@default \{([\d_]+|half of maxStreams, rounded up)\}/
        .exec(
          comments.get(name) ?? "",
        ) ?? [];
    const { default: expected = "half of maxStreams, rounded up", ...range } =
      option;
    const documented = [
      numberIn(defaultValue) || defaultValue,
      numberIn(min),
      numberIn(max),
    ];
    assertEquals([name, ...documented], [name, expected, range.min, range.max]);
  }
});

/** The options that are not passed on as they are; each has a test of its own. */
const CONVERTED = [
  "variables",
  "manifest",
  "manifestPath",
  "loadPatternLibrary",
  "strict",
  "acceptPublic",
  "allowedOrigins",
  "trustedProxies",
  "neverServed",
  "store",
  "upstream",
] as const;

type NotHere =
  | typeof CONVERTED[number]
  | typeof SWITCHES[number]
  | keyof typeof NUMBER_OPTIONS;

/** A value that is not the default, for every other option that is passed on as it is. */
const VALUES: Required<Omit<GatewayOptions, NotHere>> = {
  app: "shop",
  revision: "8f3a1c9",
  allowedHosts: ["app.example.com"],
  basePath: "/app",
  pollMs: 30_000,
  staticDir: "dist",
  fallback: "app.html",
  immutable: ["assets/*"],
  keepBuilds: "builds",
  masterKey: new Uint8Array(32).fill(1),
  instanceId: "host:8080",
  log: { ...silentLog },
  telemetry: { ...noTelemetry },
  clock: { ...systemClock },
  random: () => 0,
};

for (const name of SWITCHES) {
  Deno.test(`resolveSettings() turns ${name} on only if it is set`, () => {
    const settings = [{}, { [name]: false }, { [name]: true }].map(resolveAll);
    assertEquals(settings.map((it) => it[name]), [false, false, true]);
  });
}

for (const name of Object.keys(VALUES) as (keyof typeof VALUES)[]) {
  Deno.test(`resolveSettings() passes ${name} on`, () => {
    const value = VALUES[name];
    const assertSame = Array.isArray(value) ? assertEquals : assertStrictEquals;
    assertSame(resolveAll({ [name]: value })[name], value);
    assertNotStrictEquals(resolveAll({})[name], VALUES[name]);
  });
}

Deno.test("resolveSettings() accepts the intervals of polls, and no others", () => {
  for (const pollMs of [10_000, 15_000, 30_000, 60_000, 300_000, 3_600_000]) {
    assertEquals(resolveAll({ pollMs }).pollMs, pollMs);
  }
  for (const pollMs of [0, 1, 30, 20_000, 29_999, NaN, -10_000, "30s"]) {
    assertStringIncludes(
      messageOf({ pollMs }),
      "expected one of 10000, 15000, 30000, 60000, 300000, 3600000, got",
    );
  }
});

Deno.test("resolveServices() puts the circuit breaker around the store that it is given", () => {
  const store = { ...memoryStore(), engine: "mine" };
  assertEquals(resolveServices({ store }).breaker.availability.engine, "mine");
});

Deno.test("createGateway() says which runtime is needed on one that is too old, such as Node.js 20", async () => {
  const { groupBy } = Map;
  try {
    Reflect.deleteProperty(Map, "groupBy");
    await assertRejects(
      () => createGateway(),
      Error,
      "it needs Node.js 22.15 or newer",
    );
  } finally {
    Map.groupBy = groupBy;
  }
});

Deno.test("resolveSettings() normalizes allowedOrigins", () => {
  const allowedOrigins = [
    "https://App.example.com:443/",
    "http://localhost:3000",
  ];
  assertEquals(resolveAll({ allowedOrigins }).allowedOrigins, [
    "https://app.example.com",
    "http://localhost:3000",
  ]);
});

Deno.test("resolveSettings() rejects allowedOrigins that no browser sends", () => {
  const wrong = ["", "*", "null", "app.example.com", "https://*.example.com"];
  for (const origin of wrong) {
    assertEquals(
      messageOf({ allowedOrigins: ["https://app.example.com", origin] }),
      `Cannot use allowedOrigins: expected origins such as https://app.example.com, without wildcards, got "${origin}"`,
    );
  }
});

Deno.test("resolveSettings() rejects a revision that has spaces, cannot be printed, or is too long", () => {
  for (const revision of ["", "v 1", "v\n1", "é", "a".repeat(129)]) {
    assertStringIncludes(
      messageOf({ revision }),
      "Cannot use revision: expected 1 to 128 printable ASCII characters without spaces, got ",
    );
  }
  const longest = "a".repeat(128);
  assertEquals(resolveAll({ revision: longest }).revision, longest);
});

Deno.test("resolveSettings() takes a base path that is null in JavaScript for none", () => {
  const basePath = null as never;
  assertEquals(resolveSettings({ variables: {}, basePath }).basePath, "");
});

Deno.test("resolveSettings() parses upstream", () => {
  const expected = new URL("http://127.0.0.1:3000/base");
  assertEquals(
    [expected.href, expected].map((upstream) =>
      resolveAll({ upstream }).upstream
    ),
    [
      expected,
      expected,
    ],
  );
});

Deno.test("resolveSources() makes a function of neverServed", async () => {
  const forms = [
    undefined,
    ["app.env"],
    () => ["app.env"],
    () => Promise.resolve(["app.env"]),
  ];
  const read = (neverServed: GatewayOptions["neverServed"]) =>
    resolveAll(neverServed === undefined ? {} : { neverServed })
      .neverServed();
  assertEquals(await Promise.all(forms.map(read)), [[], ["app.env"], [
    "app.env",
  ], ["app.env"]]);
});

Deno.test("resolveSettings() rejects trustedProxies that are neither addresses nor blocks", () => {
  assertEquals(
    messageOf({ trustedProxies: ["10.0.0.0/8", "proxy"] }),
    'Cannot use trustedProxies: expected IP addresses or CIDR blocks such as 10.0.0.0/8, got "proxy"',
  );
});

Deno.test("resolveSources() reads variables and manifest anew each time, with the options of the snapshot", async () => {
  let reads = 0;
  const loadPatternLibrary = () => Promise.reject(new Error("not loaded"));
  const manifest = 'version: "0.1.0"\nvariables: {A: {tier: public}}';
  const options = {
    strict: true,
    acceptPublic: ["B"],
    loadPatternLibrary,
  };
  const { readSources: read } = resolveSources({
    ...options,
    variables: () => ({ A: String(++reads) }),
    manifest: () => manifest,
    manifestPath: "rep.yaml",
  }, () => `file ${reads}`);
  const parsed = parseManifest(manifest, { path: "rep.yaml" });
  const inputs = [await read(), await read()];
  assertEquals(
    inputs.map(({ sourceOf, ...input }) => [input, sourceOf?.("A")]),
    ["1", "2"].map((A) => {
      const input = {
        ...options,
        environment: { A },
        manifest: parsed,
        requiredTiers: TIERS,
        rejectsSuspiciousValues: false,
      };
      return [input, `file ${A}`];
    }),
  );
});

Deno.test("resolveSources() hands on a manifest that has been parsed, and does not parse it again", async () => {
  const manifest = parseManifest('version: "0.1.0"\nvariables: {}');
  const { readSources: read } = resolveAll({
    variables: {},
    manifest: () => manifest,
  });
  assertStrictEquals((await read()).manifest, manifest);
  const object = (() => ({ variables: { A: { tier: "public" } } })) as never;
  await assertRejects(
    () => resolveAll({ variables: {}, manifest: object }).readSources(),
    ConfigurationError,
    "Cannot use manifest: expected a string, got a mapping",
  );
});

Deno.test("resolveSources() rejects what is no object as the variables, and what is no string as the manifest", async () => {
  const wrong = [
    [null, "nothing"],
    [[], "an empty list"],
    ["A=1", "a string"],
  ] as const;
  for (const [value, shown] of wrong) {
    const variables = (() => value) as never;
    await assertRejects(
      () => resolveAll({ variables }).readSources(),
      ConfigurationError,
      `Cannot use variables: expected an object with their names, got ${shown}`,
    );
  }
  const manifest = (() => null) as never;
  await assertRejects(
    () => resolveAll({ variables: {}, manifest }).readSources(),
    ConfigurationError,
    "Cannot use manifest: expected a string, got nothing",
  );
});

for (const [name, { min, max, step = 1 }] of NUMBERS) {
  Deno.test(`resolveSettings() accepts ${name} from ${min} to ${max} only`, () => {
    for (const value of [min, max]) {
      assertEquals(resolveAll({ [name]: value })[name], value);
    }
    const expected = step === 1 ? "an integer" : `a multiple of ${step}`;
    const wrong = [NaN, Infinity, min - step, max + step, min + step / 2];
    for (const value of [...wrong, `${min}`]) {
      const got = typeof value === "string" ? `"${value}"` : value;
      assertEquals(
        messageOf({ [name]: value }),
        `Cannot use ${name}: expected ${expected} from ${min} to ${max}, got ${got}`,
      );
    }
  });
}

Deno.test("resolveSettings() gives a client half of the streams by default, rounded up", () => {
  const perClient = [1, 2, 5, 5_000].map((maxStreams) =>
    resolveAll({ maxStreams }).maxStreamsPerClient
  );
  assertEquals(perClient, [1, 1, 3, 2_500]);
  assertEquals(
    resolveAll({ maxStreams: 2, maxStreamsPerClient: 2 })
      .maxStreamsPerClient,
    2,
  );
});

Deno.test("resolveSources() accepts the names of PUBLIC variables with and without their prefix, and no others", async () => {
  const variables = { REP_PUBLIC_A: "1" };
  const acceptPublic = ["REP_PUBLIC_A", "B"];
  const { readSources: read } = resolveAll({ variables, acceptPublic });
  assertEquals((await read()).acceptPublic, ["A", "B"]);
  for (const name of ["", "REP_PUBLIC_", "REP_SERVER_A", "REP_A"]) {
    assertEquals(
      messageOf({ acceptPublic: ["A", name] }),
      `Cannot use acceptPublic: expected names of PUBLIC variables, such as STRIPE_KEY, got "${name}"`,
    );
  }
});

Deno.test("resolveSettings() rejects globs of immutable files that match no path in the directory", () => {
  for (const glob of ["", "/assets/*", "./assets/*", "../*"]) {
    assertEquals(
      messageOf({ immutable: ["assets/*", glob] }),
      `Cannot use immutable: expected globs of paths in the directory, such as assets/*, got "${glob}"`,
    );
  }
});

Deno.test("resolveSettings() rejects a keepBuilds that is no path", () => {
  const url = new URL("file:///builds");
  for (const keepBuilds of ["", "a\0b", null, 5, url]) {
    assertMatch(
      messageOf({ keepBuilds }),
      /^Cannot use keepBuilds: expected the path of a directory, got /,
    );
  }
});

Deno.test("resolveSettings() rejects allowedHosts that are not hosts", () => {
  assertEquals(
    messageOf({ allowedHosts: ["app.example.com", "http://app.example.com"] }),
    "Cannot use allowedHosts: expected hosts such as app.example.com, localhost:8080 or *.example.com, " +
      'got "http://app.example.com"',
  );
});

Deno.test("resolveSettings() rejects an invalid upstream, without its secrets", () => {
  const invalid = {
    "nonsense": "nonsense",
    "http://user:s3cret@up.example/": "http://…@up.example/",
  };
  for (const [upstream, shown] of Object.entries(invalid)) {
    assertEquals(
      messageOf({ upstream }),
      "Cannot use upstream: expected an http: or https: URL without credentials, query and fragment, " +
        `such as http://127.0.0.1:3000, got "${shown}"`,
    );
  }
});

Deno.test("resolveSettings() rejects a master key that does not have 32 bytes", () => {
  for (const length of [0, 31, 33]) {
    const message =
      `Cannot use masterKey: expected a Uint8Array of 32 bytes, got ${length}`;
    assertEquals(messageOf({ masterKey: new Uint8Array(length) }), message);
  }
});

Deno.test("resolveSettings() rejects what JavaScript passes without types: a text for a list or for the master key", () => {
  for (
    const name of [
      "allowedHosts",
      "allowedOrigins",
      "immutable",
      "trustedProxies",
    ]
  ) {
    assertEquals(
      messageOf({ [name]: "10.0.0.0/8" }),
      `Cannot use ${name}: expected an array, got "10.0.0.0/8"`,
    );
  }
  const masterKey = "m".repeat(32) as unknown as Uint8Array<ArrayBuffer>;
  assertEquals(
    messageOf({ masterKey }),
    "Cannot use masterKey: expected a Uint8Array of 32 bytes, got string",
  );
});
