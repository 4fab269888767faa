import { join, toFileUrl } from "@std/path";

/** After this time, a process that does not exit by itself is ended. */
const TIMEOUT_MS = 60_000;

/** Options of {@linkcode bareProcess}. */
export interface BareProcessOptions {
  /** Flags for `deno run`. */
  flags?: readonly string[];
  /** Variables of its environment. */
  env?: Readonly<Record<string, string>>;
  /** The limit of open file descriptors; by default that of this process. */
  maxFiles?: number;
}

/** A process that belongs to a test. */
export interface BareProcess extends AsyncDisposable {
  readonly child: Deno.ChildProcess;
  /** Its output, one JSON value per line. */
  readonly lines: AsyncIterableIterator<unknown>;
}

/** Modules that the sources import and these programs do not use; without them no network and no cache is needed. */
const UNUSED = {
  "@std/collections/chunk":
    "data:text/javascript,export const chunk = undefined",
  "@std/log/base-handler": "data:text/javascript,export class BaseHandler {}",
  "@std/log/logger": "data:text/javascript,export class Logger {}",
  "@std/path": "data:text/javascript,export const join = undefined",
};

/**
 * Runs a program outside the checkout, without configuration, with an empty `DENO_DIR`, and with no permissions but
 * those in `flags`. It must exit by itself. `say(…)` prints its arguments as JSON, and `src/` is mapped to the
 * project's sources.
 */
export async function bareProcess(
  program: string,
  options: BareProcessOptions = {},
): Promise<BareProcess> {
  const { flags = [], maxFiles, env: more } = options;
  const folder = await Deno.makeTempDir();
  const main = join(folder, "main.ts");
  await Deno.writeTextFile(main, `${PRELUDE}\n${program}`);
  await Deno.writeTextFile(
    join(folder, "imports.json"),
    JSON.stringify({ imports: { ...UNUSED, "src/": SOURCES } }),
  );
  const args = ["run", ...FLAGS, ...flags, toFileUrl(main).href];
  const [command, commandArgs] = maxFiles === undefined
    ? [Deno.execPath(), args]
    : ["bash", [
      "-c",
      `ulimit -n ${maxFiles}; exec "$0" "$@"`,
      Deno.execPath(),
      ...args,
    ]];
  const env = { DENO_DIR: join(folder, "deno"), NO_COLOR: "1", ...more };
  const child = new Deno.Command(command, {
    args: commandArgs,
    cwd: folder,
    env,
    stdin: "null",
    stdout: "piped",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  })
    .spawn();
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
const FLAGS = [
  "--no-config",
  "--no-lock",
  "--no-check",
  "--no-prompt",
  "--no-code-cache",
  "--import-map=imports.json",
];
const PRELUDE = `const say = (...values) => console.log(JSON.stringify(values));
const log = { debug: say, info: say, warn: say, error: say };`;

async function* jsonLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<unknown> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line);
  }
}
