/**
 * The server of `fan_out.ts`: `gateway`, with the size of its values in bytes, or `bare`, the least code that sends the
 * same bytes to the same streams. Each line on its standard input is a command: `publish`, or `usage`, whose response
 * is a line of JSON.
 */
import process from "node:process";
import { TextLineStream } from "../tools/text_lines.ts";
import { createGateway } from "../src/gateway.ts";
import { BareStreams } from "./_bare_streams.ts";

/** The resources that the process has used so far. */
export interface Usage {
  /** Microseconds, over all threads. */
  readonly cpuUs: number;
  /** Resident bytes. */
  readonly rss: number;
}

interface Subject {
  handler: (request: Request) => Response | Promise<Response>;
  publish: () => Promise<void> | void;
}

async function gateway(valueBytes: number): Promise<Subject> {
  let count = 0;
  const variables = () => ({
    REP_PUBLIC_A: `value ${count}`.padEnd(valueBytes, "."),
  });
  const { fetch, reload } = await createGateway({
    hotReload: true,
    maxStreams: 100_000,
    variables,
  });
  return {
    handler: (request) => fetch(request),
    publish() {
      count++;
      return reload();
    },
  };
}

function bare(): Subject {
  const streams = new BareStreams();
  return { handler: () => streams.open(), publish: () => streams.publish() };
}

function usage(): Usage {
  const { user, system } = process.cpuUsage();
  return { cpuUs: user + system, rss: Deno.memoryUsage().rss };
}

function print(value: unknown): void {
  // deno-lint-ignore no-console -- the parent process reads it
  console.log(JSON.stringify(value));
}

if (import.meta.main) {
  const { handler, publish } = Deno.args[0] === "bare"
    ? bare()
    : await gateway(Number(Deno.args[1] ?? 0));
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    handler,
  );
  print({ port: server.addr.port });
  for await (
    const command of Deno.stdin.readable.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream())
  ) {
    if (command === "publish") await publish();
    else print(usage());
  }
  Deno.exit(0); // open streams would keep the process running
}
