import { assertEquals } from "@std/assert";
import { TempDirectory } from "../../_temp.ts";
import { run } from "./_run.ts";

const MANIFEST = `version: "0.1.0"
variables:
  API_URL: { tier: public, type: url, required: true }
  LEVEL: { tier: public, type: enum, values: [1, 2], default: 1 }
  OLD: { tier: public, deprecated: true, deprecated_message: Use NEW }
  KEY: { tier: sensitive, pattern: "^UA-.*$" }
  RETRIES: { tier: server, default: 10 }
  UNSET: { tier: public }
`;

/** A project with a manifest and two env files. */
function makeProject(): Promise<TempDirectory> {
  return TempDirectory.make({
    "rep.yaml": MANIFEST,
    "one.env":
      "REP_PUBLIC_API_URL=https://one.example\nREP_PUBLIC_OLD=x\nREP_SENSITIVE_KEY=UA-s3cret\n",
    "two.env": "REP_PUBLIC_API_URL=https://two.example\n",
  });
}

Deno.test("validate prints the effective values with their sources, and hides those of other tiers", async () => {
  await using project = await makeProject();
  const [manifest, one, two] = ["rep.yaml", "one.env", "two.env"].map((name) =>
    project.at(name)
  );
  const args = [
    "validate",
    "--manifest",
    `${manifest}`,
    "--env-file",
    `${one}`,
    "--env-file",
    `${two}`,
    "--json",
  ];
  const { code, out, err } = await run(args, { REP_PUBLIC_LEVEL: "2" });
  assertEquals([code, err], [0, []]);
  assertEquals(JSON.parse(out.join("\n")), {
    valid: true,
    issues: [],
    warnings: ["REP_PUBLIC_OLD is deprecated: Use NEW"],
    variables: [
      {
        name: "API_URL",
        tier: "public",
        source: two,
        value: "https://two.example",
      },
      {
        name: "KEY",
        tier: "sensitive",
        source: one,
        value: null,
        hidden: "sensitive",
      },
      { name: "LEVEL", tier: "public", source: "environment", value: "2" },
      { name: "OLD", tier: "public", source: one, value: "x" },
      {
        name: "RETRIES",
        tier: "server",
        source: "default",
        value: null,
        hidden: "server",
      },
      { name: "UNSET", tier: "public", source: null, value: null },
    ],
  });
});

Deno.test("validate reads the list of REP_GATEWAY_ENV_FILE, as the gateway does", async () => {
  await using project = await makeProject();
  const paths = ["one.env", "two.env"].map((name) => project.at(name));
  const { out } = await run(["validate", "--json"], {
    REP_GATEWAY_ENV_FILE: paths.join(","),
  });
  const { variables }: { variables: { name: string; source: string }[] } = JSON
    .parse(out.join("\n"));
  const sources = variables.map(({ name, source }) => [name, source]);
  assertEquals(sources, [["API_URL", paths[1]], ["KEY", paths[0]], [
    "OLD",
    paths[0],
  ]]);
});

Deno.test("validate prints a table, and the result to standard error", async () => {
  await using project = await TempDirectory.make({ "rep.yaml": MANIFEST });
  const environment = {
    REP_PUBLIC_API_URL: "https://a.example",
    REP_SENSITIVE_KEY: "UA-s3cret",
  };
  assertEquals(
    await run(["validate", "-m", project.at("rep.yaml")], environment),
    {
      code: 0,
      out: [
        "NAME     TIER       SOURCE       VALUE",
        "API_URL  public     environment  https://a.example",
        "KEY      sensitive  environment  (hidden)",
        "LEVEL    public     default      1",
        "OLD      public     (not set)",
        "RETRIES  server     default      (hidden)",
        "UNSET    public     (not set)",
      ],
      err: ["Valid: 6 variables"],
    },
  );
});

Deno.test("validate checks the manifest alone if no variable is set, and says so", async () => {
  await using project = await TempDirectory.make({
    "rep.yaml": MANIFEST,
    "bad.yaml":
      `${MANIFEST}  COUNT: { tier: sensitive, type: number, default: ten }\n`,
  });
  const alone = "Warning: no variable is set: only the manifest is checked";
  const { code, err } = await run([
    "validate",
    "--manifest",
    project.at("rep.yaml"),
  ]);
  assertEquals([code, err], [0, [alone, "Valid: 6 variables"]]);
  assertEquals(
    await run(["validate", "--manifest", project.at("bad.yaml")]).then((
      { code, err },
    ) => [code, err]),
    [1, [
      "Cannot use the default of REP_SENSITIVE_COUNT: expected a number, got a value that is not shown",
      alone,
      "Invalid: 1 issue",
    ]],
  );
  const { out } = await run([
    "validate",
    "--manifest",
    project.at("rep.yaml"),
    "--json",
  ]);
  const { valid, issues, warnings } = JSON.parse(out.join("\n"));
  assertEquals([valid, issues, warnings], [true, [], [
    alone.replace("Warning: ", ""),
  ]]);
});

Deno.test("validate reports all issues of the manifest, the env files, the options and the variables", async () => {
  await using project = await TempDirectory.make({
    "rep.yaml":
      `${MANIFEST}  BAD: { tier: public, requird: true }\nsettings: { session_key_ttl: 1m }\n`,
  });
  const [manifest, missing] = [
    project.at("rep.yaml"),
    project.at("missing.env"),
  ];
  const { code, err } = await run([
    "validate",
    "--manifest",
    manifest,
    "--env-file",
    missing,
  ], {
    REP_PUBLIC_KEY: "x",
    REP_GATEWAY_PORT: "x",
    REP_GATEWAY_SESSION_KEY_TTL: "x",
    REP_GATEWAY_PROT: "1",
  });
  assertEquals(code, 1);
  assertEquals(
    err.map((line) =>
      line.replace(/: (No such file|expected one of|The system).*/, ": …")
    ),
    [
      `Cannot read --env-file "${missing}": …`,
      `Cannot use the manifest "${manifest}": variables.BAD.requird: …`,
      `Cannot use the manifest "${manifest}": settings.session_key_ttl: expected a duration from 1s to 30s, such as 30s, got "1m"`,
      'Cannot read REP_GATEWAY_PORT: expected an integer from 0 to 65535, got "x"',
      'Cannot read REP_GATEWAY_SESSION_KEY_TTL: expected a duration from 1s to 30s, such as 30s, got "x"',
      `Cannot find REP_PUBLIC_API_URL: the manifest "${manifest}" requires it, but it is not set`,
      `Cannot use REP_PUBLIC_KEY: the manifest "${manifest}" declares it as REP_SENSITIVE_KEY`,
      "Warning: REP_GATEWAY_PROT is not an option and is ignored",
      "Invalid: 7 issues",
    ],
  );
});

Deno.test("validate warns of values that look like secrets without printing them, and fails with --strict", async () => {
  const environment = { REP_PUBLIC_TOKEN: "AKIAIOSFODNN7EXAMPLE" };
  const row = "TOKEN  public  environment  (hidden: looks like a secret)";
  assertEquals(await run(["validate"], environment), {
    code: 0,
    out: ["NAME   TIER    SOURCE       VALUE", row],
    err: [
      "Warning: REP_PUBLIC_TOKEN: the value looks like an AWS access key",
      "Valid: 1 variables",
    ],
  });
  const issue =
    "Cannot publish REP_PUBLIC_TOKEN in strict mode: the value looks like an AWS access key";
  for (
    const [args, env] of [[["--strict"], {}], [[], {
      REP_GATEWAY_STRICT: "1",
    }]] as const
  ) {
    const { code, err } = await run(["validate", ...args], {
      ...environment,
      ...env,
    });
    assertEquals([code, err], [1, [issue, "Invalid: 1 issue"]]);
  }
});

Deno.test("validate exits with 2 for an invalid command line", async () => {
  for (
    const args of [["validate", "x"], ["validate", "--kv=x"], [
      "validate",
      "--env-file=",
    ]]
  ) {
    assertEquals([args, (await run(args)).code], [args, 2]);
  }
});

Deno.test("validate warns of what it may not read", {
  permissions: { env: false, read: false },
}, async () => {
  assertEquals(await run(["validate"]), {
    code: 0,
    out: [],
    err: [
      "Warning: without --allow-env, environment variables are not read: neither REP_* variables nor options",
      "Warning: without --allow-read, .rep.yaml is not read",
      "Valid: 0 variables",
    ],
  });
});
