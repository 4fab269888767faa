/** Variables of the environment of all commands: no colors, no questions, no telemetry. */
const ENVIRONMENT = {
  CI: "1",
  NO_COLOR: "1",
  ASTRO_TELEMETRY_DISABLED: "1",
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_yes: "true", // `npm create` asks before its first download of a package
  // `deno task` names Deno here, and then `qwik add` would install packages with it, in another layout than npm's.
  npm_config_user_agent: "npm/{npm-version} node/{node-version}",
};

/** How many of the last characters that a command printed an error shows. */
const SHOWN_CHARACTERS = 2_000;

function command(line: string, cwd: string, env: Record<string, string>) {
  return new Deno.Command("sh", {
    args: ["-c", line],
    cwd,
    env: { ...ENVIRONMENT, ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    detached: true, // a group of its own, so that what it starts ends with it
  });
}

/** Runs a line of the shell to its end. @throws {Error} If it fails. */
export async function run(
  line: string,
  cwd: string,
  env: Record<string, string> = {},
): Promise<void> {
  const { success, stdout, stderr } = await command(line, cwd, env).output();
  if (success) return;
  const decoder = new TextDecoder();
  const text = decoder.decode(stdout) + decoder.decode(stderr);
  throw new Error(`Cannot run ${line}: ${text.slice(-SHOWN_CHARACTERS)}`);
}

/** A server that runs until it is disposed. */
export class Server implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<unknown>;
  #output = "";

  constructor(line: string, cwd: string, env: Record<string, string> = {}) {
    this.#child = command(line, cwd, env).spawn();
    this.#ended = Promise.all([
      this.#collect(this.#child.stdout),
      this.#collect(this.#child.stderr),
      this.#child.status,
    ]);
  }

  /** The last lines that it has printed. */
  get output(): string {
    return this.#output.slice(-SHOWN_CHARACTERS);
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    const texts = stream.pipeThrough(new TextDecoderStream() as never);
    for await (const text of texts) this.#output += text;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      Deno.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#ended;
  }
}
