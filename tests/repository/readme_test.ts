/** Runs every program in README.md, and compares its claims with the code. */
import { assertEquals } from "@std/assert";
import { OPTIONS } from "../../src/command/options/option_table.ts";
import { testBrowser } from "../_browser.ts";
import { RunningCommand, startCommand, startProgram } from "../_command.ts";
import { readSse } from "../_sse.ts";
import { TempDirectory } from "../_temp.ts";

const README = await Deno.readTextFile("README.md");

/** Returns the text of the code block after a heading or a sentence, which may be broken into lines anywhere. */
function codeAfter(text: string): string {
  const words = text.split(" ").map((word) => RegExp.escape(word));
  const pattern = new RegExp(
    `${words.join("\\s+")}[^]*?\`\`\`[a-z ]+\n([^]*?)\n\`\`\``,
  );
  const [, code] = pattern.exec(README) ?? [];
  if (code === undefined) {
    throw new Error(`Cannot find a code block after "${text}"`);
  }
  return code;
}

/** Returns the arguments after the name of the gateway on JSR. */
function argumentsIn(command: readonly string[]): string[] {
  return command.slice(
    command.findIndex((word) => word.startsWith("jsr:@rep/gateway")) + 1,
  );
}

interface Payload {
  public: Record<string, string>;
  sensitive?: string;
}

async function payloadAt(url: string): Promise<Payload> {
  const html = await (await fetch(url)).text();
  return JSON.parse(
    /<script id="__rep__"[^>]*>([^<]*)</.exec(html)?.[1] ?? "null",
  );
}

/** A directory with a build and an env file. */
async function projectWith(page: string, env: string) {
  const directory = await TempDirectory.make();
  await Deno.mkdir(directory.at("dist"));
  await Deno.writeTextFile(directory.at("dist/index.html"), page);
  await Deno.writeTextFile(directory.at("app.env"), env);
  return directory;
}

/** Starts the gateway as the quick start with Deno does, in a project. */
function quickStart(directory: TempDirectory): Promise<RunningCommand> {
  const [, command = ""] =
    /^(deno run .*jsr:@rep\/gateway .*)$/m.exec(README) ?? [];
  const args = argumentsIn(command.split(" ")).map((word) =>
    /^(dist|app\.env)$/.test(word) ? directory.at(word) : word
  );
  return startCommand([...args, "--kv", ":memory:"]);
}

const EMPTY_PAGE = "<!doctype html><title>app</title>";

/** Runs a command of the first screen, which ends with a task and its arguments, on a free port. */
function startTask(command: string, env: Record<string, string>) {
  const args = command.replace("npx -y deno@2.9.6 ", "").split(" ");
  const listening = (line: string) =>
    line.includes("rep.listening")
      ? /(http:[^\s"]+)/.exec(line)?.[1]
      : undefined;
  return RunningCommand.start({ args, env }, listening);
}

Deno.test("the two commands on the first screen of README.md serve the example and a build", async () => {
  const [, block = ""] = /```sh\n([^]*?)\n```/.exec(README) ?? [];
  const commands = block.split("\n").filter((line) => line.startsWith("npx "))
    .map((line) => line.split(/ {2,}#/)[0] ?? "");
  assertEquals(commands.length, 2);
  const [example = "", build = ""] = commands;
  await using directory = await projectWith(EMPTY_PAGE, "");
  const ofBuild = build.replace("../my-app/dist", directory.at("dist"));
  const values: Record<string, string>[] = [];
  for (
    const [command, env] of [
      [`${example} --port 0`, {}],
      [`${ofBuild} --port 0 --kv :memory:`, { REP_PUBLIC_GREETING: "Hi" }],
    ] as const
  ) {
    await using gateway = await startTask(command, env);
    // SIGKILL would end the task, but not the gateway.
    const payload = await payloadAt(gateway.url).finally(() =>
      gateway.signal("SIGTERM")
    );
    await gateway.ended();
    values.push(payload.public);
  }
  assertEquals(values.map(({ GREETING }) => GREETING), [
    "Hello from the gateway",
    "Hi",
  ]);
});

/** Replaces what differs from run to run. */
function withoutVariables(transcript: string): string {
  return transcript
    .replaceAll(/127\.0\.0\.1:\d+/g, "HOST")
    .replaceAll(/(?<="version":"[\d.]+)\+\w+/g, "") // the commit
    .replaceAll(/"uptime_seconds":\d+/g, '"uptime_seconds":0')
    .replaceAll(/"build":"\w+"/g, '"build":"BUILD"')
    .replaceAll(/"key":"[A-Za-z0-9+/]{43}="/g, '"key":"KEY"')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "TIME")
    .replaceAll(/^retry: \d+$/gm, "retry: 0")
    .replaceAll(/^id: \d{16}$/gm, "id: 0");
}

Deno.test("the console session in README.md is what the example answers", async () => {
  await using directory = await TempDirectory.make();
  const env = await Deno.readTextFile("examples/example.env");
  await Deno.writeTextFile(directory.at("app.env"), env);
  const example = [
    "--static-dir",
    "examples/page",
    "--manifest",
    "examples/rep.yaml",
  ];
  await using gateway = await startCommand([
    ...example,
    "--env-file",
    directory.at("app.env"),
    "--kv",
    ":memory:",
  ]);
  const outputs: string[] = [];
  for (const path of ["health", "session-key"]) {
    outputs.push(await (await fetch(`${gateway.url}/rep/${path}`)).text());
  }
  const stream = readSse(await fetch(`${gateway.url}/rep/changes`));
  await stream.pull();
  await Deno.writeTextFile(
    directory.at("app.env"),
    env.replace("Hello from the gateway", "Good morning"),
  );
  await stream.take(1);
  outputs.push(stream.text().trimEnd());
  await stream.close();
  const session = codeAfter("look at the bytes:").split(/^\$ .*\n/m).slice(1)
    .map((output) => output.trimEnd());
  assertEquals(session.map(withoutVariables), outputs.map(withoutVariables));
});

Deno.test("the quick start with Deno in README.md serves a build, and notices a change of the file", async () => {
  const env = codeAfter("such as `app.env`:");
  await using directory = await projectWith(EMPTY_PAGE, env);
  await using gateway = await quickStart(directory);
  const { public: values, sensitive } = await payloadAt(gateway.url);
  assertEquals([values, typeof sensitive], [{
    API_URL: "https://api.example.com",
  }, "string"]);
  await Deno.writeTextFile(
    directory.at("app.env"),
    env.replace("https://api.", "https://api2."),
  );
  await gateway.logged(({ msg }) => msg === "rep.config.reloaded");
  assertEquals((await payloadAt(gateway.url)).public, {
    API_URL: "https://api2.example.com",
  });
});

testBrowser(
  "the script in README.md runs in a page, and opens the stream",
  async (browser) => {
    const script = codeAfter("npm or JSR:");
    const page =
      `<!doctype html><script type="module">${script}\nglobalThis.isReady = true;</script>`;
    await using directory = await projectWith(
      page,
      codeAfter("such as `app.env`:"),
    );
    await using gateway = await quickStart(directory);
    const tab = await browser.open(gateway.url);
    await tab.waitForFunction("globalThis.isReady");
    const source = `import("/rep/client.js").then(async ({ rep }) =>
    [rep.get("API_URL"), await rep.getSecure("MAP_KEY"), rep.status().state !== "closed"])`;
    assertEquals(await tab.evaluate(source), [
      "https://api.example.com",
      "abc-123",
      true,
    ]);
  },
);

Deno.test("the entry point of the container in README.md serves a build with the variables of docker run", async () => {
  const entrypoint: string[] = JSON.parse(
    /^ENTRYPOINT (\[.*\])$/m.exec(README)?.[1] ?? "[]",
  );
  await using directory = await projectWith(EMPTY_PAGE, "");
  const args = argumentsIn(entrypoint).map((word) =>
    word === "/dist" ? directory.at("dist") : word
  );
  const [, name = "", value = ""] =
    /--env (\w+)=(\S+)/.exec(codeAfter("ENTRYPOINT")) ?? [];
  await using gateway = await startCommand(args, { [name]: value });
  assertEquals((await payloadAt(gateway.url)).public, {
    API_URL: "https://api.example.com",
  });
  assertEquals(OPTIONS.port.default, 8080); // as published
});

Deno.test("the module example in README.md is a server that delivers its configuration", async () => {
  const example = codeAfter("## Quick start as a module");
  await using server = await startProgram(
    example.replace("jsr:@rep/gateway", "@rep/gateway"),
  );
  const { public: values, sensitive } = await payloadAt(server.url);
  assertEquals([values, typeof sensitive], [{ THEME: "dark" }, "string"]);
  const { status, variables } = await (await fetch(`${server.url}/rep/health`))
    .json();
  assertEquals([status, variables], ["healthy", {
    public: 1,
    sensitive: 1,
    server: 0,
  }]);
});

Deno.test("a reload in the module example in README.md publishes a change", async () => {
  const example = codeAfter("## Quick start as a module").replace(
    "jsr:@rep/gateway",
    "@rep/gateway",
  );
  const [, change = ""] = /Set\s+`(variables\.[^`]+)`\s+before/.exec(README) ??
    [];
  await using server = await startProgram(
    `${example}\n${change};\nawait gateway.reload();`,
  );
  await server.logged(({ msg }) => msg === "rep.config.reloaded");
  assertEquals((await payloadAt(server.url)).public, { THEME: "light" });
});
