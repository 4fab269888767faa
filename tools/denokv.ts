/**
 * Finds and starts the `denokv` server, or builds it, which takes minutes and needs Rust:
 *
 *     deno run -A tools/denokv.ts
 */
import { deadline } from "@std/async/deadline";
import { join } from "@std/path";
import { TextLineStream } from "./text_lines.ts";

const IS_WINDOWS = Deno.build.os === "windows";

/** Where `denokv` is: where DENOKV says, on the PATH, or where `cargo install` puts it; nothing if it is nowhere. */
export async function findDenokv(): Promise<string | undefined> {
  const named = Deno.env.get("DENOKV");
  if (named) return named;
  const name = IS_WINDOWS ? "denokv.exe" : "denokv";
  for (const folder of [...foldersOnPath(), ...foldersOfCargo()]) {
    const program = join(folder, name);
    if (await isFile(program)) return program;
  }
}

function foldersOnPath(): string[] {
  const path = Deno.env.get("PATH") ?? "";
  return path.split(IS_WINDOWS ? ";" : ":").filter((folder) => folder !== "");
}

/** In the order in which `cargo install` chooses. */
function foldersOfCargo(): string[] {
  const home = Deno.env.get(IS_WINDOWS ? "USERPROFILE" : "HOME");
  const roots = [Deno.env.get("CARGO_INSTALL_ROOT"), Deno.env.get("CARGO_HOME"), home && join(home, ".cargo")];
  return roots.flatMap((root) => root ? [join(root, "bin")] : []);
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch {
    return false; // not there, or not ours to look at
  }
}

/** How long a start may take. */
const START_TIMEOUT_MS = 60_000;

/** A `denokv` server on this machine, over one file, that can be killed and started again. */
export interface Denokv extends AsyncDisposable {
  readonly port: number;
  /** Ends it without notice. */
  kill(): Promise<void>;
  /** Starts it again: same port, same file. */
  start(): Promise<void>;
}

/** What a `denokv` server is started with. */
export interface DenokvOptions {
  /** Where the program is. */
  program: string;
  /** The database. */
  path: string;
  token: string;
}

/** Starts a server on a free port of this machine. */
export async function startDenokv({ program, path, token }: DenokvOptions): Promise<Denokv> {
  let running = await run(0);
  const { port } = running;

  async function run(port: number) {
    const args = ["--sqlite-path", path, "serve", "--addr", `127.0.0.1:${port}`];
    const env = { DENO_KV_ACCESS_TOKEN: token, NO_COLOR: "1" };
    const child = new Deno.Command(program, { args, env, stdin: "null", stdout: "null", stderr: "piped" }).spawn();
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const read = readPort(child.stderr, resolve).then(() => reject(new Error("denokv ended before it listened")));
    return { child, read, port: await deadline(promise, START_TIMEOUT_MS) };
  }

  async function kill(): Promise<void> {
    running.child.kill("SIGKILL");
    await running.child.status;
    await running.read;
  }

  let isUp = true;
  return {
    port,
    async kill() {
      isUp = false;
      await kill();
    },
    async start() {
      running = await run(port);
      isUp = true;
    },
    async [Symbol.asyncDispose]() {
      if (isUp) await kill();
    },
  };
}

async function readPort(stderr: ReadableStream<Uint8Array<ArrayBuffer>>, found: (port: number) => void): Promise<void> {
  for await (const line of stderr.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
    const [, port] = /Listening on http:\/\/127\.0\.0\.1:(\d+)/.exec(line) ?? [];
    if (port !== undefined) found(Number(port));
  }
}

async function installDenokv(): Promise<void> {
  const { success } = await new Deno.Command("cargo", { args: ["install", "denokv", "--locked"] }).spawn().status;
  if (!success) throw new Error("Cannot install denokv: expected `cargo install denokv --locked` to work");
}

async function main(): Promise<void> {
  if (await findDenokv() === undefined) await installDenokv();
  const program = await findDenokv();
  if (program === undefined) throw new Error("Cannot find denokv: expected it on the PATH, or DENOKV to name it");
  await Deno.stdout.write(new TextEncoder().encode(`denokv is ${program}\n`));
}

if (import.meta.main) await main();
