/** What somebody sees who starts the gateway on a terminal. `script` of util-linux makes one. */
import { assertEquals, assertMatch } from "@std/assert";
import { stdFlags } from "../tools/std.ts";
import { findProgram } from "../tools/find_program.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import { TempDirectory } from "./_temp.ts";

const SCRIPT = await findProgram("script");
const ignore = SCRIPT === undefined || Deno.build.os !== "linux";

const APP = {
  "index.html": "<head></head>",
  "app.env": "REP_PUBLIC_A=1\n",
};

/** Starts the gateway on a terminal. */
async function startOnTerminal(
  app: TempDirectory,
  signal: AbortSignal,
): Promise<Deno.ChildProcess> {
  const line = [
    ...[Deno.execPath(), "run", ...await stdFlags(), "--config=deno.json"],
    ...["--no-check", "--quiet", "-A", "main.ts", "--port=0", "--hot-reload"],
    ...["--kv=:memory:", "--static-dir", app.path],
    ...["--env-file", app.at("app.env")],
  ].map((word) => `'${word}'`).join(" ");
  return new Deno.Command(SCRIPT ?? "script", {
    signal,
    args: ["-qefc", `exec ${line}`, "/dev/null"],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
    env: { NO_COLOR: "1" },
  }).spawn();
}

function linesOf(terminal: Deno.ChildProcess): ReadableStream<string> {
  return terminal.stdout.pipeThrough(new TextDecoderStream())
    .pipeThrough(new TextLineStream());
}

Deno.test({
  name: "a closed terminal ends the gateway, and does not reload it",
  ignore,
  async fn() {
    await using app = await TempDirectory.make(APP);
    const signal = AbortSignal.timeout(60_000);
    await using terminal = await startOnTerminal(app, signal);
    let link = "";
    for await (const text of linesOf(terminal)) {
      link = text.trimEnd();
      if (link.startsWith("http")) break;
    }
    terminal.kill("SIGKILL"); // the kernel then sends SIGHUP to what runs on the terminal
    const isServed = () =>
      fetch(link, { signal }).then((it) => it.text(), () => "");
    while (await isServed() !== "");
    assertEquals(signal.aborted, false, "the gateway still runs");
  },
});

Deno.test({
  name:
    "on a terminal, logs are text, an env file is watched, and the last line of a start is a link",
  ignore,
  async fn() {
    await using app = await TempDirectory.make(APP);
    const tooLong = AbortSignal.timeout(60_000);
    await using terminal = await startOnTerminal(app, tooLong);
    const lines: string[] = [];
    let isStarted = false;
    for await (const text of linesOf(terminal)) {
      if (text.trim() !== "") lines.push(text.trimEnd()); // a terminal ends lines with CR and LF
      if (/^http/.test(text)) {
        const page = await (await fetch(text.trimEnd())).text();
        assertMatch(page, /"A":"1"/);
        await app.write("app.env", "REP_PUBLIC_A=2\n");
        isStarted = true;
      }
      if (isStarted && text.includes("rep.config.changed key=A")) break;
    }
    assertEquals(tooLong.aborted, false, lines.join("\n"));
    const link = lines.findIndex((text) =>
      /^http:\/\/localhost:\d+\/$/.test(text)
    );
    assertMatch(lines[link - 1] ?? "", /^\S+ INFO +rep\.listening /);
    assertEquals(
      lines.filter((text) => text.includes("only noticed at SIGHUP")),
      [],
    );
  },
});
