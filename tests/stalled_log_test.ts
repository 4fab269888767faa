/** What happens if nobody reads the log of a running gateway. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { findFreePort } from "../tools/free_port.ts";
import { commandArgs, type LogLine, serveArgs } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

/** As many lines as the pipe and the queue contain have 1.1 MiB. */
const REQUESTS = 1_500;
const PATH = `/${"x".repeat(900)}.js`;

interface StalledCase {
  readonly what: string;
  readonly args?: readonly string[];
  readonly format?: "text";
  readonly isServe?: boolean;
  /** Both descriptors are one pipe, as after `2>&1`. */
  readonly isShared?: boolean;
}

const CASES: readonly StalledCase[] = [
  { what: "standard output" },
  {
    what: "standard output in text",
    args: ["--log-format", "text"],
    format: "text",
  },
  { what: "the pipe of both descriptors", isShared: true },
  { what: "standard output of deno serve", isServe: true },
];

/** Starts a gateway whose log nobody reads, and waits until it is ready. */
async function startUnread({ args = [], isServe, isShared }: StalledCase) {
  const port = findFreePort();
  const all = ["--kv=:memory:", "--access-log", ...args];
  const own = ["--hostname=127.0.0.1", `--port=${port}`];
  const denoArgs = isServe
    ? [...serveArgs(port, []), ...all]
    : commandArgs([...own, ...all]);
  const [program, programArgs] = isShared
    ? ["sh", ["-c", 'exec "$0" "$@" 2>&1', Deno.execPath(), ...denoArgs]]
    : [Deno.execPath(), denoArgs];
  const child = new Deno.Command(program, {
    args: programArgs,
    env: { NO_COLOR: "1", REP_SENSITIVE_TOKEN: "s" },
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const url = `http://127.0.0.1:${port}`;
  while (!await isReady(url)) {
    await new Promise((resolve) => setTimeout(resolve, 50)); // no line of the log can say so
  }
  return { child, url };
}

async function isReady(url: string): Promise<boolean> {
  try {
    const { status } = await ask(`${url}/rep/health`);
    return status === 200;
  } catch {
    return false;
  }
}

async function ask(url: string) {
  const signal = AbortSignal.timeout(20_000);
  const response = await fetch(url, { signal });
  return { status: response.status, body: await response.text() };
}

async function fill(url: string): Promise<void> {
  for (let index = 0; index < REQUESTS; index++) {
    assertEquals((await ask(url + PATH)).status, 404);
  }
}

for (const one of CASES) {
  Deno.test(`a gateway goes on if nobody reads ${one.what}: it drops lines, issues no key without its line, and says so afterwards`, async () => {
    const { child, url } = await startUnread(one);
    let output: Promise<string>;
    try {
      await fill(url);
      assertEquals((await ask(`${url}/rep/health`)).status, 200);
      const rejected = await ask(`${url}/rep/session-key`);
      assertEquals(rejected.status, 503);
      assertStringIncludes(rejected.body, "its audit line cannot be written");
    } finally {
      output = new Response(child.stdout).text();
    }
    while ((await ask(`${url}/rep/session-key`)).status === 503) {
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    child.kill("SIGTERM");
    const lines = (await output).trimEnd().split("\n");
    assertEquals((await child.status).code, 0);
    if (one.format === "text") {
      const whole = /^\d{4}-\S+Z (INFO|WARN) +rep\.[a-z_.]+( \w+=\S+|$)/;
      assertEquals(lines.filter((line) => !whole.test(line)), []);
      return;
    }
    const events: LogLine[] = lines.map((line) => JSON.parse(line));
    const count = (event: string) =>
      events.filter(({ msg }) => msg === event).length;
    assertEquals(count("rep.session_key.issued"), 1);
    assertEquals(count("rep.stopped"), 1);
    const report = events.find(({ msg }) => msg === "rep.log.dropped");
    const requests = count("rep.request");
    assert(requests < REQUESTS);
    // Also dropped: the lines of the request for a key, and of its key; health is not logged.
    assert(Number(report?.lines) >= REQUESTS - requests, `${report?.lines}`);
  });
}

for (const isServe of [false, true]) {
  Deno.test(`a ${isServe ? "deno serve" : "gateway"} whose log nobody reads ends within a few seconds`, async () => {
    const { child, url } = await startUnread({ what: "", isServe });
    try {
      await fill(url);
      child.kill("SIGTERM");
      const timeout = setTimeout(() => child.kill("SIGKILL"), 20_000);
      const { code, signal } = await child.status;
      clearTimeout(timeout);
      assertEquals([code, signal], [0, null]);
    } finally {
      await child.stdout.cancel();
    }
  });
}

Deno.test("a start that fails ends although nobody reads why", async () => {
  await using directory = await TempDirectory.make();
  const names = Array.from(
    { length: 5_000 },
    (_, index) => `not a line ${index}`,
  );
  const file = await directory.write("app.env", names.join("\n"));
  const args = commandArgs(["--kv=:memory:", "--port=0", "--env-file", file]);
  const child = new Deno.Command(Deno.execPath(), {
    args,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timeout = setTimeout(() => child.kill("SIGKILL"), 30_000);
  const { code } = await child.status;
  clearTimeout(timeout);
  await child.stdout.cancel();
  await child.stderr.cancel();
  assertEquals(code, 1);
});
