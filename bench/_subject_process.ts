import { delay } from "@std/async/delay";
import { basename } from "@std/path";
import { type ProcessUsage, readUsage } from "./_process_usage.ts";

/** How a server is started. */
export interface SubjectCommand {
  readonly program: string;
  readonly args: readonly string[];
  /** The port that it listens on, on 127.0.0.1. */
  readonly port: number;
  /** The path that returns this status when the server is ready. */
  readonly readyPath: string;
  readonly readyStatus: number;
}

/** How long a start may take. */
const START_TIMEOUT_MS = 20_000;
/** How long an end may take: the gateway stores what it has counted in memory. */
const END_TIMEOUT_MS = 5_000;
/** How often the port is tried while a server starts. */
const RETRY_MS = 1;

/** A server that is measured, as a process of its own whose output is discarded, except for errors. */
export class SubjectProcess implements AsyncDisposable {
  readonly port: number;
  /** From the start of the process to the first response, in milliseconds. */
  readonly startMs: number;
  readonly #child: Deno.ChildProcess;

  private constructor(child: Deno.ChildProcess, port: number, startMs: number) {
    this.#child = child;
    this.port = port;
    this.startMs = startMs;
  }

  /**
   * Starts a server, and waits until it answers.
   *
   * @throws {Error} If it ends, or does not answer within 20 s.
   */
  static async start(command: SubjectCommand): Promise<SubjectProcess> {
    const { program, args, port, readyPath, readyStatus } = command;
    const startedAt = performance.now();
    const child = new Deno.Command(program, {
      args: [...args],
      cwd: new URL("..", import.meta.url),
      env: { NO_COLOR: "1" },
      stdin: "null",
      stdout: "null",
      stderr: "inherit",
    }).spawn();
    let hasEnded = false;
    void child.status.then(() => hasEnded = true);
    while (await statusOf(port, readyPath) !== readyStatus) {
      if (hasEnded || performance.now() - startedAt > START_TIMEOUT_MS) {
        await end(child);
        throw new Error(
          `Cannot start ${
            basename(program)
          }: expected status ${readyStatus} for ${readyPath} within 20 s`,
        );
      }
      await delay(RETRY_MS);
    }
    return new SubjectProcess(child, port, performance.now() - startedAt);
  }

  /** Where it listens, without a slash at the end. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** CPU time and memory of the process, so far. */
  usage(): Promise<ProcessUsage> {
    return readUsage(this.#child.pid);
  }

  /** Makes it read its variables again. */
  reload(): void {
    this.#child.kill("SIGHUP");
  }

  /** Ends it as a crash does. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.#child);
  }
}

async function end(child: Deno.ChildProcess): Promise<void> {
  try {
    child.kill("SIGTERM"); // nginx ends its workers then, unlike after SIGKILL
  } catch {
    // it has ended
  }
  const timer = setTimeout(() => child.kill("SIGKILL"), END_TIMEOUT_MS);
  await child.status;
  clearTimeout(timer);
}

/**
 * Returns the status of a response, or `undefined` if nothing listens yet. Each request has a connection of its own,
 * since a client with a pool would take longer to notice that the port is open.
 */
async function statusOf(
  port: number,
  path: string,
): Promise<number | undefined> {
  try {
    using connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(
      encoder.encode(
        `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`,
      ),
    );
    const buffer = new Uint8Array(64);
    const length = await connection.read(buffer) ?? 0;
    const text = decoder.decode(buffer.subarray(0, length));
    const [, status] = /^HTTP\/1\.[01] (\d{3}) /.exec(text) ?? [];
    return Number(status);
  } catch {
    return undefined; // refused, or closed by a server that is starting
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();
