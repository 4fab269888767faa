/**
 * Finds the `denokv` server and runs it for tests and benchmarks, or builds it, which takes minutes and needs Rust:
 *
 *     deno run -A tools/denokv.ts
 */
import { deadline } from "@std/async/deadline";
import { join } from "@std/path";
import { homedir } from "node:os";
import { findProgram } from "./find_program.ts";
import { TextLineStream } from "./text_lines.ts";

/**
 * Returns the path of `denokv`: from `DENOKV`, the `PATH`, or where `cargo install` puts it; `undefined` if it is
 * missing.
 */
export async function findDenokv(): Promise<string | undefined> {
  return Deno.env.get("DENOKV") || await findProgram("denokv", cargoFolders());
}

/** Returns the folders in the order in which `cargo install` chooses one. */
function cargoFolders(): string[] {
  const roots = [
    Deno.env.get("CARGO_INSTALL_ROOT"),
    Deno.env.get("CARGO_HOME"),
    join(homedir(), ".cargo"),
  ];
  return roots.filter((root) => root !== undefined).map((root) =>
    join(root, "bin")
  );
}

/** How long a start may take. */
const START_TIMEOUT_MS = 60_000;

/** Options of {@linkcode Denokv.launch}. */
export interface DenokvOptions {
  /** The path of the program. */
  program: string;
  /** The path of the database. */
  path: string;
  token: string;
  /** Further arguments of `serve`. @default {[]} */
  args?: readonly string[];
}

/** A running server process. */
interface ServerProcess {
  readonly child: Deno.ChildProcess;
  /** Settles when its standard error ends. */
  readonly read: Promise<void>;
  readonly port: number;
}

/** A `denokv` server over one file, on a free port of 127.0.0.1, that can be killed and started again. */
export class Denokv implements AsyncDisposable {
  readonly port: number;
  readonly #options: DenokvOptions;
  #process: ServerProcess | undefined;

  private constructor(options: DenokvOptions, process: ServerProcess) {
    this.#options = options;
    this.#process = process;
    this.port = process.port;
  }

  static async launch(options: DenokvOptions): Promise<Denokv> {
    return new Denokv(options, await spawn(options, 0));
  }

  /** The id of its process; `undefined` if it was killed. */
  get pid(): number | undefined {
    return this.#process?.child.pid;
  }

  /** Ends it with SIGKILL. */
  async kill(): Promise<void> {
    const running = this.#process;
    if (running === undefined) return;
    this.#process = undefined;
    running.child.kill("SIGKILL");
    await running.child.status;
    await running.read;
  }

  /** Starts it again with the same port and file. */
  async start(): Promise<void> {
    this.#process = await spawn(this.#options, this.port);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }
}

async function spawn(
  options: DenokvOptions,
  listenPort: number,
): Promise<ServerProcess> {
  const args = [
    "--sqlite-path",
    options.path,
    "serve",
    "--addr",
    `127.0.0.1:${listenPort}`,
    ...options.args ?? [],
  ];
  const env = { DENO_KV_ACCESS_TOKEN: options.token, NO_COLOR: "1" };
  const child = new Deno.Command(options.program, {
    args,
    env,
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const port = Promise.withResolvers<number>();
  const read = readPort(child.stderr, port.resolve).then(() =>
    port.reject(new Error("denokv ended before it listened"))
  );
  const found = await deadline(port.promise, START_TIMEOUT_MS);
  return { child, read, port: found };
}

async function readPort(
  stderr: ReadableStream<Uint8Array<ArrayBuffer>>,
  found: (port: number) => void,
): Promise<void> {
  const lines = stderr.pipeThrough(new TextDecoderStream())
    .pipeThrough(new TextLineStream());
  for await (const line of lines) {
    const [, port] = /Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line) ??
      [];
    if (port !== undefined) found(Number(port));
  }
}

async function installDenokv(): Promise<void> {
  const { success } = await new Deno.Command("cargo", {
    args: ["install", "denokv", "--locked"],
  }).spawn().status;
  if (!success) {
    throw new Error(
      "Cannot install denokv: expected `cargo install denokv --locked` to work",
    );
  }
}

async function main(): Promise<void> {
  if (await findDenokv() === undefined) await installDenokv();
  const program = await findDenokv();
  if (program === undefined) {
    throw new Error(
      "Cannot find denokv: expected it on the PATH, or DENOKV to name it",
    );
  }
  await Deno.stdout.write(new TextEncoder().encode(`denokv is ${program}\n`));
}

if (import.meta.main) await main();
