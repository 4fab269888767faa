/** What somebody sees who starts the gateway on a terminal. `script` of util-linux makes one. */
import { assertEquals, assertMatch } from "@std/assert";
import { stdFlags } from "../tools/std.ts";
import { findProgram } from "../tools/find_program.ts";
import { TextLineStream } from "../tools/text_lines.ts";
import { TempDirectory } from "./_temp.ts";

const SCRIPT = await findProgram("script");

Deno.test({
  name:
    "on a terminal, logs are text, an env file is watched, and the last line of a start is a link",
  ignore: SCRIPT === undefined || Deno.build.os !== "linux",
  async fn() {
    await using app = await TempDirectory.make({
      "index.html": "<head></head>",
      "app.env": "REP_PUBLIC_A=1\n",
    });
    const line = [
      ...[Deno.execPath(), "run", ...await stdFlags(), "--config=deno.json"],
      ...["--no-check", "--quiet", "-A", "main.ts", "--port=0", "--hot-reload"],
      ...["--kv=:memory:", "--static-dir", app.path],
      ...["--env-file", app.at("app.env")],
    ].map((word) => `'${word}'`).join(" ");
    const tooLong = AbortSignal.timeout(60_000);
    await using terminal = new Deno.Command(SCRIPT ?? "script", {
      signal: tooLong,
      args: ["-qefc", `exec ${line}`, "/dev/null"],
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      env: { NO_COLOR: "1" },
    }).spawn();
    const lines: string[] = [];
    let isStarted = false;
    const texts = terminal.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const text of texts) {
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
