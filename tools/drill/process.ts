import { TextLineStream } from "../text_lines.ts";

/** The environment variables that a process inherits: none of the user's own gateway. */
const PASSED_ON = ["PATH", "HOME", "DENO_DIR", "XDG_CACHE_HOME", "TMPDIR"];
/** How many of its last lines an error shows. */
const SHOWN_LINES = 20;

/** What a process runs. */
export interface ProcessOptions {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** @default {the drill's own} */
  readonly cwd?: string;
  /** Called with each line that it prints. */
  readonly onLine?: (line: string) => void;
}

function command(
  { program, args, env = {}, cwd = Deno.cwd() }: ProcessOptions,
): Deno.Command {
  const passedOn = PASSED_ON.map((name) => [name, Deno.env.get(name)]);
  const set = passedOn.filter(([, value]) => value !== undefined);
  return new Deno.Command(program, {
    args: [...args],
    cwd,
    clearEnv: true,
    env: { ...Object.fromEntries(set), NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
}

/** Runs a program to its end. */
export async function run(
  program: string,
  args: readonly string[],
  options: Pick<ProcessOptions, "env" | "cwd"> = {},
): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await command({ program, args, ...options })
    .output();
  const decoder = new TextDecoder();
  return { code, text: decoder.decode(stdout) + decoder.decode(stderr) };
}

/** A program that runs until it is stopped. */
export class RunningProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #onLine: (line: string) => void;
  readonly #lines: string[] = [];
  readonly #ended: Promise<number>;
  #hasEnded = false;

  constructor(options: ProcessOptions) {
    this.#onLine = options.onLine ?? (() => {});
    this.#child = command(options).spawn();
    this.#ended = this.#end();
  }

  get pid(): number {
    return this.#child.pid;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** What it printed last. */
  get lastLines(): string {
    return this.#lines.join("\n");
  }

  /** Its exit code, once it has ended. */
  get ended(): Promise<number> {
    return this.#ended;
  }

  signal(signal: Deno.Signal): void {
    if (!this.#hasEnded) this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.signal("SIGKILL");
    await this.#ended;
  }

  async #end(): Promise<number> {
    const { stdout, stderr } = this.#child;
    const read = [stdout, stderr].map((stream) => this.#read(stream));
    const { code } = await this.#child.status;
    this.#hasEnded = true;
    await Promise.all(read);
    return code;
  }

  async #read(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    const lines = stream
      .pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream());
    for await (const line of lines) {
      this.#lines.push(line);
      if (this.#lines.length > SHOWN_LINES) this.#lines.shift();
      this.#onLine(line);
    }
  }
}
