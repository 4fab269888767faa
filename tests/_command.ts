import { findFreePort } from "../tools/free_port.ts";
import { registryFlags, stdFlags } from "../tools/std.ts";
import { TextLineStream } from "../tools/text_lines.ts";

/** One line of the command's log. */
export type LogLine = Record<string, unknown> & { msg: string };

const [FLAGS, REGISTRY_FLAGS] = await Promise.all([
  stdFlags(),
  registryFlags(),
]);

/** The command runs as users run it: from a registry, with a store. */
const COMMAND_FLAGS = [...REGISTRY_FLAGS, "--unstable-kv"];

/** How long a process may take for a line or for its end. It is far more than a busy machine needs. */
const TIMEOUT_MS = 60_000;

/** Returns the arguments for `deno` that run the command. */
export function commandArgs(
  args: readonly string[],
  permissions: readonly string[] = ["-A"],
): string[] {
  return [
    "run",
    "--quiet",
    ...COMMAND_FLAGS,
    ...permissions,
    "main.ts",
    ...args,
  ];
}

/** How a command ended that was expected to. */
export interface CommandOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command to its end. */
export function runCommand(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<CommandOutcome> {
  return runDeno(commandArgs(args), env);
}

/** Runs `serve.ts` with `deno serve` to its end. */
export function runServe(
  flags: readonly string[],
  env: Record<string, string> = {},
): Promise<CommandOutcome> {
  return runDeno([
    "serve",
    ...COMMAND_FLAGS,
    "-A",
    "--host",
    "127.0.0.1",
    ...flags,
    "serve.ts",
  ], env);
}

/** Runs Deno to its end. */
export async function runDeno(
  args: string[],
  env: Record<string, string> = {},
): Promise<CommandOutcome> {
  const options = {
    args,
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
  } as const;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const command = new Deno.Command(Deno.execPath(), { ...options, signal });
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  if (signal.aborted) {
    throw new Error(
      `Cannot wait for deno ${
        args.join(" ")
      }: expected it to end within ${TIMEOUT_MS} ms, got ${
        decoder.decode(stdout) + decoder.decode(stderr)
      }`,
    );
  }
  return {
    code,
    stdout: decoder.decode(stdout),
    stderr: decoder.decode(stderr),
  };
}

/** Starts the command on a free port of 127.0.0.1, and waits until it listens. */
export async function startCommand(
  args: readonly string[],
  env: Record<string, string> = {},
  permissions?: readonly string[],
): Promise<RunningCommand> {
  const hasPort = args.some((arg) => /^--port\b/.test(arg));
  const port = hasPort ? [] : ["--port", String(findFreePort())]; // it may be started again on it
  const all = commandArgs(
    ["--hostname", "127.0.0.1", ...port, ...args],
    permissions,
  );
  return await RunningCommand.start({ args: all, env }, listeningUrl);
}

/** Starts the command, and waits until it is ready or waits for its store. */
export async function startWaitingCommand(
  args: readonly string[],
  env: Record<string, string> = {},
  port = findFreePort(),
): Promise<RunningCommand> {
  const ownFlags = ["--hostname=127.0.0.1", "--port", String(port)];
  const all = commandArgs([...ownFlags, ...args]);
  return await RunningCommand.start({ args: all, env }, waitingUrl(port));
}

/** Returns the function that finds the line of a gateway that is ready or waits for its store. */
function waitingUrl(port: number): (text: string) => string | undefined {
  return (text) => {
    const event = parseLogLine(text)?.msg ?? "";
    const isAnswering = ["rep.start.waiting", "rep.listening"].includes(event);
    return isAnswering ? `http://127.0.0.1:${port}` : undefined;
  };
}

/** The URL in the log line that says that the gateway is ready. */
export function listeningUrl(text: string): string | undefined {
  const line = parseLogLine(text);
  return line?.msg === "rep.listening" && line.serves === "gateway"
    ? String(line.url)
    : undefined;
}

/** Starts `serve.ts` with `deno serve`, and waits until it listens. */
export async function startServe(
  flags: readonly string[],
  env: Record<string, string> = {},
): Promise<RunningCommand> {
  const args = serveArgs(0, flags);
  return await RunningCommand.start({ args, env }, listeningUrl);
}

/** Starts `serve.ts` with `deno serve`, and waits until it is ready or waits for its store. */
export async function startWaitingServe(
  env: Record<string, string>,
): Promise<RunningCommand> {
  const port = findFreePort();
  const args = serveArgs(port, []);
  return await RunningCommand.start({ args, env }, waitingUrl(port));
}

/** Returns the arguments for `deno` that run `serve.ts`. */
export function serveArgs(port: number, flags: readonly string[]): string[] {
  return [
    "serve",
    ...COMMAND_FLAGS,
    "-A",
    "--host",
    "127.0.0.1",
    "--port",
    String(port),
    ...flags,
    "serve.ts",
  ];
}

/** Starts a program that calls `Deno.serve`, given as its source, on a free port of 127.0.0.1. */
export async function startProgram(source: string): Promise<RunningCommand> {
  const env = { DENO_SERVE_ADDRESS: "tcp:127.0.0.1:0" };
  const options = { args: ["run", ...FLAGS, "-A", "-"], env, stdin: source };
  return await RunningCommand.start(options, listeningServer);
}

/** Starts a module that calls `Deno.serve` on 127.0.0.1. */
export async function startModule(
  path: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<RunningCommand> {
  return await RunningCommand.start({
    args: ["run", ...FLAGS, "-A", path, ...args],
    env,
  }, listeningServer);
}

/** The URL in the line that `Deno.serve` prints. */
function listeningServer(line: string): string | undefined {
  return /^Listening on (http:\S+)/.exec(line)?.[1];
}

/** What {@linkcode RunningCommand.start} runs. */
interface ProcessOptions {
  /** The program. @default {Deno itself} */
  program?: string;
  /** Arguments for the program. */
  args: string[];
  env: Record<string, string>;
  /** Its working directory. @default {that of this process} */
  cwd?: string;
  /** The text of its standard input. */
  stdin?: string;
}

/** A server that runs as a process of its own. */
export class RunningCommand implements AsyncDisposable {
  /** All lines it has printed. */
  readonly output: string[] = [];
  readonly #child: Deno.ChildProcess;
  readonly #checks = new Set<() => void>();
  #url = "";
  #hasEnded = false;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    const outputs = [child.stdout, child.stderr];
    const collected = Promise.all(outputs.map((it) => this.#collect(it)));
    void collected.then(() => {
      this.#hasEnded = true;
      this.#runChecks();
    });
  }

  /** @param urlIn Returns the URL from the line of the output that contains it. */
  static async start(
    { program = Deno.execPath(), args, env, cwd, stdin }: ProcessOptions,
    urlIn: (line: string) => string | undefined,
  ): Promise<RunningCommand> {
    const child = new Deno.Command(program, {
      args,
      env: { NO_COLOR: "1", ...env },
      ...(cwd === undefined ? {} : { cwd }),
      stdin: stdin === undefined ? "null" : "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const command = new RunningCommand(child);
    if (stdin !== undefined) {
      await ReadableStream.from([stdin]).pipeThrough(new TextEncoderStream())
        .pipeTo(child.stdin);
    }
    const findUrl = () =>
      command.output.map(urlIn).find((url) => url !== undefined);
    try {
      const url = await command.#find("the line with its URL", findUrl);
      command.#url = url.replace(/\/$/, "");
      return command;
    } catch (error) {
      await command[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Where it listens, without a slash at the end. */
  get url(): string {
    return this.#url;
  }

  /** Waits for a line of the log that matches, past or future. @throws {Error} If none comes within a minute. */
  logged(matches: (line: LogLine) => boolean): Promise<LogLine> {
    return this.#find(
      `a line of the log for which ${matches} holds`,
      () =>
        this.output.map(parseLogLine).find((line) =>
          line !== undefined && matches(line)
        ),
    );
  }

  /** Waits for a line with this text, past or future. @throws {Error} If none comes within a minute. */
  printed(text: string): Promise<string> {
    return this.#find(
      `a line with "${text}"`,
      () => this.output.find((line) => line.includes(text)),
    );
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Waits until the process exits, and returns its exit code. @throws {Error} If it runs for another minute. */
  async ended(): Promise<number> {
    await this.#find("its end", () => this.#hasEnded || undefined);
    return (await this.#child.status).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#hasEnded) this.#child.kill("SIGKILL");
    await this.ended();
  }

  async #collect(
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  ): Promise<void> {
    for await (
      const line of stream.pipeThrough(new TextDecoderStream()).pipeThrough(
        new TextLineStream(),
      )
    ) {
      this.output.push(line);
      this.#runChecks();
    }
  }

  #runChecks(): void {
    for (const check of [...this.#checks]) check();
  }

  /** Repeats a search for every new line, and at the end, until it returns something. */
  async #find<T>(what: string, search: () => T | undefined): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const fail = (got: string) =>
      reject(
        new Error(
          `Cannot find ${what}: ${got}, after the output\n${
            this.output.join("\n")
          }`,
        ),
      );
    const check = () => {
      const found = search();
      if (found !== undefined) resolve(found);
      else if (this.#hasEnded) fail("the process ended");
    };
    const timer = setTimeout(
      () => fail(`nothing for ${TIMEOUT_MS} ms`),
      TIMEOUT_MS,
    );
    this.#checks.add(check);
    check();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#checks.delete(check);
    }
  }
}

/** `deno serve --parallel` prefixes each line with its thread. */
function parseLogLine(line: string): LogLine | undefined {
  const json = line.replace(/^\[serve-worker-\d+ *\] /, "");
  return json.startsWith("{") ? JSON.parse(json) : undefined;
}
