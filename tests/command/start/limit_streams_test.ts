import { assertEquals, assertMatch } from "@std/assert";
import { findFreePort } from "../../../tools/free_port.ts";
import { commandArgs, listeningUrl, RunningCommand } from "../../_command.ts";
import { TempDirectory } from "../../_temp.ts";
import { within } from "../../_time.ts";

/** More than the process may have open. */
const CLIENTS = 600;
const LIMIT = 512;

const PERMISSIONS = {
  "-A, with which it reads the limit": ["-A"],
  "the documented permissions, with which it opens files": [
    "--allow-net",
    "--allow-env",
    "--allow-read",
    "--allow-sys=hostname",
  ],
};

/** Starts the command with few file descriptors. */
async function startWithLimit(args: string[], permissions: string[]) {
  const command = commandArgs(args, permissions);
  const limited = `ulimit -n ${LIMIT}; exec "$0" "$@"`;
  return await RunningCommand.start({
    program: "bash",
    args: ["-c", limited, Deno.execPath(), ...command],
    env: {},
  }, listeningUrl);
}

async function readChunk(connection: Deno.Conn): Promise<string> {
  const buffer = new Uint8Array(4_096);
  const size = await within(connection.read(buffer), 10_000);
  return new TextDecoder().decode(buffer.subarray(0, size ?? 0));
}

const encoder = new TextEncoder();

/** Requests a stream, and returns its connection; `undefined` if the response is a poll. */
async function openStream(port: number): Promise<Deno.Conn | undefined> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = "GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n\r\n";
  await connection.write(encoder.encode(head));
  const text = await readChunk(connection);
  if (text.includes(": connected\n")) return connection;
  assertMatch(text, /: too many open streams; reconnect later\n/);
  connection.close();
}

for (const [kind, permissions] of Object.entries(PERMISSIONS)) {
  Deno.test({
    name:
      `streams leave file descriptors for probes, files and reloads, with ${kind}`,
    ignore: Deno.build.os === "windows",
    async fn() {
      await using directory = await TempDirectory.make({
        "app.env": "REP_PUBLIC_A=1\n",
        "index.html": "<html></html>",
      });
      const healthPort = findFreePort();
      const port = findFreePort();
      await using command = await startWithLimit([
        "--hostname=127.0.0.1",
        `--port=${port}`,
        `--health-port=${healthPort}`,
        `--static-dir=${directory.path}`,
        `--env-file=${directory.at("app.env")}`,
        `--max-streams-per-client=${CLIENTS}`,
        "--hot-reload",
        "--kv=:memory:",
      ], permissions);
      const { detail } = await command.logged(({ msg }) =>
        msg === "rep.start.warning"
      );
      const [, lowered] =
        /^--max-streams 5000 is lowered to (\d+): the process has only \d+ file descriptors; expected a limit \(ulimit -n\) above 5256$/
          .exec(String(detail)) ?? [];
      const streams: Deno.Conn[] = [];
      try {
        for (let i = 0; i < CLIENTS; i++) {
          const stream = await openStream(port);
          if (stream !== undefined) streams.push(stream);
        }
        assertEquals(String(streams.length), lowered);
        for (let i = 0; i < 40; i++) {
          const url = `http://127.0.0.1:${healthPort}/readyz`;
          const { status, body } = await fetch(url);
          await body?.cancel();
          assertEquals(status, 200);
        }
        await directory.write("app.env", "REP_PUBLIC_A=2\n");
        command.signal("SIGHUP");
        let events = "";
        while (!events.includes('"value":"2"')) {
          events += await readChunk(streams[0]!);
        }
        const page = await (await fetch(`${command.url}/`)).text();
        assertMatch(page, /"A":"2"/);
      } finally {
        for (const stream of streams) stream.close();
      }
    },
  });
}
