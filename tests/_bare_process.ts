import { join, toFileUrl } from "@std/path";

/** What a process in {@linkcode bareProcess} is started with. */
export interface BareProcessOptions {
  /** Deno's flags. */
  flags?: readonly string[];
  /** Variables of its environment. */
  env?: Readonly<Record<string, string>>;
  /** The most file descriptors it may have; without it, as many as this process. */
  maxFiles?: number;
}

/** A process of a test's own. */
export interface BareProcess extends AsyncDisposable {
  readonly child: Deno.ChildProcess;
  /** What it prints, one JSON value a line. */
  readonly lines: AsyncIterableIterator<unknown>;
}

/** Modules imported on the way that these programs do not use: so they need neither a network nor a cache. */
const UNUSED = { "@std/path": "data:text/javascript,export const join = undefined" };

/**
 * Runs a program outside the checkout, with a Deno folder of its own: nothing is configured, nothing allowed, nothing kept.
 * It must end by itself. `say(…)` prints, and `from` is the folder of our sources.
 */
export async function bareProcess(program: string, options: BareProcessOptions = {}): Promise<BareProcess> {
  const { flags = [], maxFiles, env: more } = options;
  const folder = await Deno.makeTempDir();
  const main = join(folder, "main.ts");
  await Deno.writeTextFile(main, `${PRELUDE}\n${program}`);
  await Deno.writeTextFile(join(folder, "imports.json"), JSON.stringify({ imports: { ...UNUSED, "src/": SOURCES } }));
  const args = ["run", ...FLAGS, ...flags, toFileUrl(main).href];
  const [command, all] = maxFiles === undefined
    ? [Deno.execPath(), args]
    : ["bash", ["-c", `ulimit -n ${maxFiles}; exec "$0" "$@"`, Deno.execPath(), ...args]];
  const env = { DENO_DIR: join(folder, "deno"), NO_COLOR: "1", ...more };
  const child = new Deno.Command(command, { args: all, cwd: folder, env, stdin: "null", stdout: "piped" }).spawn();
  return {
    child,
    lines: jsonLines(child.stdout),
    async [Symbol.asyncDispose]() {
      if (!child.stdout.locked) await child.stdout.cancel();
      await child.status;
      await Deno.remove(folder, { recursive: true });
    },
  };
}

const SOURCES = new URL("../src/", import.meta.url).href;
const FLAGS = ["--no-config", "--no-lock", "--no-check", "--no-prompt", "--import-map=imports.json"];
const PRELUDE = `const say = (...said) => console.log(JSON.stringify(said));
const log = { debug: say, info: say, warn: say, error: say };`;

async function* jsonLines(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<unknown> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line);
  }
}
