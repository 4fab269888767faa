import { TextLineStream } from "../tools/text_lines.ts";
import { stdFlags } from "../tools/std.ts";

/** One line of the command's log. */
export type LogLine = Record<string, unknown> & { msg: string };

/** The command, running as a process of its own. */
export interface RunningCommand extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string;
  /** All it has printed so far. */
  readonly output: string[];
  /** Waits until a line of the log, past or to come, is what is looked for. */
  logged(matches: (line: LogLine) => boolean): Promise<LogLine>;
  signal(signal: Deno.Signal): void;
  /** Waits for its end. */
  ended(): Promise<number>;
}

const FLAGS = await stdFlags();

/** Arguments for `deno` that run the command. */
export function commandArgs(args: readonly string[], permissions: readonly string[] = ["-A"]): string[] {
  return ["run", "--quiet", ...FLAGS, ...permissions, "main.ts", ...args];
}

/** How a command ended that was expected to. */
export interface CommandOutcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command to its end. */
export async function runCommand(args: readonly string[], env: Record<string, string> = {}): Promise<CommandOutcome> {
  const options = { args: commandArgs(args), env: { NO_COLOR: "1", ...env }, stdin: "null" } as const;
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), options).output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Starts the command on a free port of this machine, and waits until it listens. */
export async function startCommand(
  args: readonly string[],
  env: Record<string, string> = {},
  permissions?: readonly string[],
): Promise<RunningCommand> {
  const port = args.includes("--port") ? [] : ["--port", "0"];
  const all = commandArgs(["--hostname", "127.0.0.1", ...port, ...args], permissions);
  return await startProcess(all, env, listeningUrl);
}

/** The URL in the log line that says that the gateway is ready. */
function listeningUrl(text: string): string | undefined {
  const line = toLogLine(text);
  return line?.msg === "rep.listening" && line.serves === "gateway" ? String(line.url) : undefined;
}

/** Starts `deno serve` with the module for it, and waits until it listens. */
export async function startServe(flags: readonly string[], env: Record<string, string> = {}): Promise<RunningCommand> {
  const args = ["serve", ...FLAGS, "-A", "--host", "127.0.0.1", "--port", "0", ...flags, "serve.ts"];
  return await startProcess(args, env, listeningUrl);
}

async function startProcess(
  args: readonly string[],
  env: Record<string, string>,
  urlIn: (line: string) => string | undefined,
): Promise<RunningCommand> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { NO_COLOR: "1", ...env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const child = command.spawn();
  const output: string[] = [];
  const waiting = new Set<() => void>();

  async function collect(stream: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const line of stream.pipeThrough(new TextDecoderStream()).pipeThrough(new TextLineStream())) {
      output.push(line);
      for (const look of [...waiting]) look();
    }
    for (const look of [...waiting]) look();
  }

  const collected = Promise.all([collect(child.stdout), collect(child.stderr)]);
  let hasEnded = false;
  void collected.then(() => {
    hasEnded = true;
    for (const look of [...waiting]) look();
  });

  function logged(matches: (line: LogLine) => boolean): Promise<LogLine> {
    return found(() => output.map(toLogLine).find((line) => line !== undefined && matches(line)));
  }

  function found<T>(find: () => T | undefined): Promise<T> {
    return new Promise((resolve, reject) => {
      function look() {
        const found = find();
        if (found === undefined && !hasEnded) return;
        waiting.delete(look);
        if (found === undefined) reject(new Error(`The command ended without that line:\n${output.join("\n")}`));
        else resolve(found);
      }
      waiting.add(look);
      look();
    });
  }

  async function ended(): Promise<number> {
    await collected;
    return (await child.status).code;
  }

  const url = await found(() => output.map(urlIn).find((url) => url !== undefined));
  return {
    url: url.replace(/\/$/, ""),
    output,
    logged,
    signal: (signal) => child.kill(signal),
    ended,
    async [Symbol.asyncDispose]() {
      if (!hasEnded) child.kill("SIGKILL");
      await ended();
    },
  };
}

/** Behind what `deno serve --parallel` says of the thread. */
function toLogLine(line: string): LogLine | undefined {
  const json = line.replace(/^\[serve-worker-\d+ *\] /, "");
  return json.startsWith("{") ? JSON.parse(json) : undefined;
}
