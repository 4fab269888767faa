import { join } from "@std/path";
import { findFreePort } from "../free_port.ts";
import type { Checkout } from "./checkout.ts";
import { RunningProcess } from "./process.ts";
import { until } from "./waiting.ts";

const MOVED_CLOCK = import.meta.resolve("./moved_clock.ts");

/** Options of {@linkcode Replica}. */
export interface ReplicaOptions {
  readonly name: string;
  /** Of which commit it is. */
  readonly checkout: Checkout;
  /** Where its files are. */
  readonly directory: string;
  /** Its flags, besides ports, files and hot reload. */
  readonly flags: readonly string[];
  /** Options and secrets in the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** The variables in its env file. */
  readonly variables: Readonly<Record<string, string>>;
  /** A program and its arguments that start the command. @default {none} */
  readonly wrapper?: readonly string[];
  /** Called with each line that it prints. */
  readonly onLine: (line: string) => void;
  readonly signal: AbortSignal;
}

/** A process of the command, which can be stopped and started again: same ports, same files. */
export class Replica implements AsyncDisposable {
  readonly name: string;
  readonly port: number = findFreePort();
  readonly healthPort: number = findFreePort();
  /** Of which commit the next start is. */
  checkout: Checkout;
  /** Options and secrets in the environment of the next start. */
  env: Readonly<Record<string, string>>;
  readonly #options: ReplicaOptions;
  #variables: Readonly<Record<string, string>>;
  #process: RunningProcess | undefined;
  #startedAt = 0;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.name = options.name;
    this.checkout = options.checkout;
    this.env = options.env;
    this.#variables = options.variables;
  }

  /** Where the app is, over HTTP. */
  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Where probes, metrics and the status page are. */
  get healthUrl(): string {
    return `http://127.0.0.1:${this.healthPort}`;
  }

  /** For how long the process has been running. */
  get secondsRunning(): number {
    return (performance.now() - this.#startedAt) / 1_000;
  }

  get pid(): number {
    return this.#process!.pid;
  }

  /** The variables in its env file while the file is intact. */
  get variables(): Readonly<Record<string, string>> {
    return this.#variables;
  }

  /** Starts the process, and waits until it is ready. */
  async start(): Promise<void> {
    await Deno.mkdir(this.#options.directory, { recursive: true });
    await this.writeVariables(this.#variables);
    const [program, ...args] = [
      ...this.#options.wrapper ?? [],
      Deno.execPath(),
      ...this.#args(),
    ];
    this.#startedAt = performance.now();
    const process = new RunningProcess({
      program: program!,
      args,
      cwd: this.checkout.directory,
      env: { ...this.env, DRILL_CLOCK: this.#at("clock") },
      onLine: this.#options.onLine,
    });
    this.#process = process;
    const { signal } = this.#options;
    const what = `${this.name} to start`;
    await until(() => this.#isReady(process), { what, signal });
  }

  /** Ends the process as an orchestrator does. */
  async stop(): Promise<void> {
    this.signal("SIGTERM");
    await this.#process?.ended;
  }

  /** Ends the process as a crash does. */
  async kill(): Promise<void> {
    this.signal("SIGKILL");
    await this.#process?.ended;
  }

  signal(signal: Deno.Signal): void {
    this.#process?.signal(signal);
  }

  /** Replaces the variables in its env file, which the process watches. The next start uses them as well. */
  async setVariables(variables: Record<string, string>): Promise<void> {
    this.#variables = variables;
    await this.writeVariables(variables);
  }

  /** Writes a faulty env file. The next start uses the previous one. */
  async writeVariables(
    variables: Readonly<Record<string, string>>,
  ): Promise<void> {
    const lines = Object.entries(variables).map(([name, value]) =>
      `${name}=${value}\n`
    );
    const path = this.#at("app.env");
    await Deno.writeTextFile(`${path}.new`, lines.join(""));
    await Deno.rename(`${path}.new`, path);
  }

  /** Sets the clock of the process to the right time plus so many hours. */
  async moveClock(hours: number): Promise<void> {
    await Deno.writeTextFile(this.#at("clock"), `${hours * 3_600_000}`);
    this.signal("SIGUSR2");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  #at(name: string): string {
    return join(this.#options.directory, name);
  }

  #args(): string[] {
    return [
      ...this.checkout.args,
      `--preload=${MOVED_CLOCK}`,
      "main.ts",
      ...["--hostname", "127.0.0.1", "--port", `${this.port}`],
      ...["--health-port", `${this.healthPort}`],
      ...["--hot-reload", "--hot-reload-mode", "file_watch"],
      ...["--env-file", this.#at("app.env")],
      ...this.#options.flags,
    ];
  }

  async #isReady(process: RunningProcess): Promise<boolean> {
    if (process.hasEnded) {
      throw new Error(`Cannot start ${this.name}:\n${process.lastLines}`);
    }
    try {
      const response = await fetch(`${this.healthUrl}/readyz`);
      await response.body?.cancel();
      return response.ok;
    } catch {
      return false; // it does not listen yet
    }
  }
}
