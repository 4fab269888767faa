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

/** Options with the permissions of the process, and how the start ends. */
const DENIED: readonly [args: string, permissions: string, message: string][] =
  [
    [
      "",
      "",
      'Cannot listen on 127.0.0.1:0: Requires net access to "127.0.0.1:0", run again with the --allow-net flag',
    ],
    [
      "--manifest=.rep.yaml",
      "",
      'Cannot read --manifest ".rep.yaml": Requires read access to ".rep.yaml", run again with the --allow-read flag',
    ],
    [
      "--env-file=a.env",
      "--allow-net",
      'Cannot read --env-file "a.env": Requires read access to "a.env", run again with the --allow-read flag',
    ],
    [
      "--tls-cert=a.pem --tls-key=b.pem",
      "--allow-net",
      'Cannot read --tls-cert "a.pem": Requires read access to "a.pem", run again with the --allow-read flag',
    ],
    [
      "--static-dir=dist",
      "--allow-net",
      'Cannot serve the directory "dist": expected a readable directory, got NotCapable: Requires read access to "dist", run again with the --allow-read flag',
    ],
    [
      "--watch-path=dist --hot-reload-mode=file_watch",
      "--allow-net",
      'Cannot watch dist: Requires read access to "dist", run again with the --allow-read flag',
    ],
    [
      "--upstream=up.example",
      "--allow-net=127.0.0.1:0",
      'Cannot proxy to --upstream "http://up.example/": expected --allow-net=up.example:80',
    ],
    [
      "--kv=./none/kv",
      "--allow-net --allow-read",
      'Cannot open the store "./none/kv": Requires write access to "./none/kv", run again with the --allow-write flag',
    ],
    [
      "--kv=https://me:s3cret@kv.example",
      "--allow-net=127.0.0.1:0 --allow-env",
      'Cannot open the store "https://…@kv.example": Requires net access to "kv.example:443", run again with the --allow-net flag',
    ],
    [
      "--kv=postgres://me:s3cret@127.0.0.1:9/db",
      "--allow-net=127.0.0.1:0 --allow-env",
      'Cannot open the store "postgres://…@127.0.0.1:9/db": Requires net access to "127.0.0.1:9", run again with the --allow-net flag',
    ],
  ];

for (const [args, permissions, message] of DENIED) {
  Deno.test(`a start with "${args}" and no more permissions than "${permissions}" says what is missing`, async () => {
    const store = args.includes("--kv") ? [] : ["--kv=:memory:"];
    const line = ["--hostname=127.0.0.1", "--port=0", "--log-level=error"];
    assertEquals(
      await fail(
        [...line, ...store, ...args.split(" ").filter(Boolean)],
        permissions.split(" ").filter(Boolean),
      ),
      {
        code: message.startsWith("Cannot watch") ? 2 : 1,
        stderr: `${message}\n`,
      },
    );
  });
}

Deno.test("init overwrites no file that it may not look for", async () => {
  await using app = await TempDirectory.make({ "app.env": "REP_PUBLIC_A=1\n" });
  await Deno.mkdir(app.at("src"));
  const [manifest, envFile] = [app.at(".rep.yaml"), app.at("app.env")];
  const files = ["--manifest", manifest, "--env-file", envFile];
  const permissions = [
    `--allow-read=${app.at("src")}`,
    `--allow-write=${app.path}`,
  ];
  const init = ["init", app.at("src"), ...files];
  const { code, stderr } = await run(init, permissions);
  assertEquals(
    [code, stderr],
    [
      1,
      'Requires read access to ".", run again with the --allow-read flag\n',
    ],
  );
  assertEquals(await Deno.readTextFile(envFile), "REP_PUBLIC_A=1\n");
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
