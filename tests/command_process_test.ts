import { assertEquals } from "@std/assert";
import config from "../deno.json" with { type: "json" };
import { helpText } from "../src/command/options/help.ts";
import { stdFlags } from "../tools/std.ts";
import { runDeno } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

const FLAGS = await stdFlags();

/** Runs the command to its end, with these permissions only. */
function run(
  args: string[],
  permissions: string[] = [],
  env: Record<string, string> = {},
) {
  const flags = ["--quiet", ...FLAGS, ...permissions];
  return runDeno(["run", ...flags, "main.ts", ...args], env);
}

Deno.test("the command prints its version, without any permission", async () => {
  assertEquals(await run(["--version"]), {
    code: 0,
    stdout: `${config.version}\n`,
    stderr: "",
  });
});

Deno.test("the command prints its help, without any permission", async () => {
  assertEquals(await run(["--help"]), {
    code: 0,
    stdout: `${helpText()}\n`,
    stderr: "",
  });
});

/** Runs a command that cannot start. The last line of its log has the same message as standard error; of several, a list. */
async function fail(
  ...args: Parameters<typeof run>
) {
  const { code, stdout, stderr } = await run(...args);
  const last = stdout.trim().split("\n").at(-1) ?? "";
  const { level, msg, detail, issues } = JSON.parse(last);
  assertEquals([level, msg], ["ERROR", "rep.start.failed"]);
  const messages: string[] = issues ?? [detail];
  assertEquals(`${messages.join("\n")}\n`, stderr);
  if (issues !== undefined) {
    const count = `it has ${messages.length} issues`;
    assertEquals(detail, `Cannot use the configuration: ${count}`);
  }
  return { code, stderr };
}

Deno.test("the command ends with 2 for a value in the environment that is not right", async () => {
  assertEquals(
    await fail([], ["--allow-env"], { REP_GATEWAY_SESSION_KEY_TTL: "1m" }),
    {
      code: 2,
      stderr:
        'Cannot read REP_GATEWAY_SESSION_KEY_TTL: expected a duration from 1s to 30s, such as 30s, got "1m"\n',
    },
  );
});

Deno.test("the command ends with 1 for a configuration that is rejected, and lists all issues", async () => {
  const env = {
    REP_PUBLIC_A: "1",
    REP_SERVER_A: "s3cret",
    REP_PUBLIC_: "x",
    REP_PUBLIC_KEY: "AKIAIOSFODNN7EXAMPLE",
  };
  assertEquals(
    await fail(["--strict", "--kv=:memory:", "--port=0"], [
      "--allow-env",
      "--allow-net",
    ], env),
    {
      code: 1,
      stderr: [
        "Cannot use REP_PUBLIC_: expected a name after the prefix",
        "Cannot use REP_PUBLIC_A and REP_SERVER_A: expected a name in one tier only",
        "Cannot publish REP_PUBLIC_KEY in strict mode: the value looks like an AWS access key; if it is meant to be public, add KEY to --accept-public (in code: acceptPublic)",
        "",
      ].join("\n"),
    },
  );
});

Deno.test("the command ends with 1 for a file that it may not read, and says what it needs", async () => {
  assertEquals(await fail(["--manifest=.rep.yaml"]), {
    code: 1,
    stderr:
      'Cannot read --manifest ".rep.yaml": expected --allow-read=.rep.yaml\n',
  });
});

Deno.test("init overwrites no file that it may not look for", async () => {
  await using app = await TempDirectory.make({ "app.env": "REP_PUBLIC_A=1\n" });
  await Deno.mkdir(app.at("src"));
  const [manifest, envFile] = [app.at(".rep.yaml"), app.at("app.env")];
  const files = ["--manifest", manifest, "--env-file", envFile];
  const permissions = [
    `--allow-read=${app.at("src")}`,
    `--allow-write=${app.path}`,
  ];
  assertEquals(await run(["init", app.at("src"), ...files], permissions), {
    code: 1,
    stdout: "",
    stderr:
      `Cannot read --manifest "${manifest}": expected --allow-read=${manifest}\n` +
      `Cannot read --env-file "${envFile}": expected --allow-read=${envFile}\n`,
  });
  assertEquals(await Deno.readTextFile(envFile), "REP_PUBLIC_A=1\n");
});

Deno.test("the command without any permission asks nobody, and says that it needs --allow-net", async () => {
  const { code, stderr } = await fail(["--kv=:memory:", "--log-level=error"]);
  assertEquals({ code, stderr }, {
    code: 1,
    stderr: "Cannot listen on 0.0.0.0:8080: expected --allow-net\n",
  });
});

Deno.test("the command remarks on what it goes on without", async () => {
  const { stdout } = await run(["--kv=:memory:", "--log-format=text"]);
  assertEquals(
    stdout.split("\n").map((line) => line.split(" ").slice(1).join(" ")).slice(
      0,
      1,
    ),
    [
      'WARN  rep.start.warning detail="without --allow-env, environment variables are not read: neither REP_* variables ' +
      'nor options"',
    ],
  );
});
