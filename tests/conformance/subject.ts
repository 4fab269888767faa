import { deadline } from "@std/async/deadline";
import { delay } from "@std/async/delay";
import { TextLineStream } from "../../tools/text_lines.ts";
import { readSse, type SseReader } from "../_sse.ts";
import { expect } from "./check.ts";
import { type Page, parsePage } from "./page.ts";

/** What a request may have besides its path. */
export interface Question {
  headers?: Record<string, string>;
  method?: string;
}

/** A response with its body. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** How long a gateway may take for a start or an end. */
const START_TIMEOUT_MS = 30_000;
/** How long it may take for everything else, by default. */
export const TIMEOUT_MS = 10_000;
/** How often it is asked whether something has happened. */
const RETRY_MS = 20;

/** How a gateway is started. */
interface SubjectOptions {
  readonly command: readonly string[];
  readonly env: Record<string, string>;
  /** Where it will listen, without a slash at the end. */
  readonly url: string;
  /** How long it may take for everything but a start or an end. */
  readonly timeoutMs: number;
}

/** A gateway as a process. */
export class Subject implements AsyncDisposable {
  /** All lines it has printed. */
  readonly output: string[] = [];
  readonly #url: string;
  readonly #timeoutMs: number;
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<Deno.CommandStatus>;
  #hasEnded = false;

  constructor({ command, env, url, timeoutMs }: SubjectOptions) {
    this.#url = url;
    this.#timeoutMs = timeoutMs;
    const [program = "", ...args] = command;
    const options = {
      args,
      env,
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    } as const;
    this.#child = new Deno.Command(program, options).spawn();
    const outputs = [this.#child.stdout, this.#child.stderr].map((stream) =>
      this.#collect(stream)
    );
    this.#ended = Promise.all(outputs).then(() => this.#child.status);
    void this.#ended.then(() => this.#hasEnded = true);
  }

  /** Waits until it serves, or has ended; returns whether it serves. */
  async hasStarted(): Promise<boolean> {
    const isDecided = async () => this.#hasEnded || await this.#serves();
    await this.eventually(
      "a response, or the end of the process",
      isDecided,
      START_TIMEOUT_MS,
    );
    return !this.#hasEnded;
  }

  /** A gateway that is starting may respond with 503; one with a health port has no report here. */
  async #serves(): Promise<boolean> {
    try {
      const { status } = await this.ask("/rep/health");
      return status < 500;
    } catch {
      return false; // nothing listens yet
    }
  }

  /** Waits for a health report at another URL. */
  async reportsAt(healthUrl: string): Promise<void> {
    const isHealthy = async () => {
      try {
        const { status } = await this.ask(`${healthUrl}/rep/health`);
        return status === 200;
      } catch {
        return false; // nothing listens yet
      }
    };
    await this.eventually("a health report", isHealthy);
  }

  async ask(
    path: string,
    { headers = {}, method = "GET" }: Question = {},
  ): Promise<Answer> {
    const url = path.startsWith("http") ? path : `${this.#url}${path}`;
    const request = async () => {
      const response = await fetch(url, {
        headers,
        method,
        redirect: "manual",
      });
      return {
        status: response.status,
        headers: response.headers,
        text: await response.text(),
      };
    };
    return await deadline(request(), this.#timeoutMs);
  }

  /** Returns a page, which has to have the element. */
  async page(path: string, question?: Question): Promise<Page> {
    return parsePage((await this.ask(path, question)).text);
  }

  /** Returns a session key as a page requests it: without `Origin`, from where the payload says. */
  async key({ payload }: Page): Promise<string> {
    const { status, text } = await this.ask(String(payload._meta.key_endpoint));
    expect(status === 200, `expected a key for the page, got ${status}`);
    return JSON.parse(text).key;
  }

  /** Opens the stream that a page names, and waits for its first bytes. */
  async changes({ payload }: Page): Promise<SseReader> {
    const response = await fetch(`${this.#url}${payload._meta.hot_reload}`);
    const stream = readSse(response);
    await deadline(stream.pull(), this.#timeoutMs);
    return stream;
  }

  signal(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** The lines of the log that are JSON objects. */
  lines(): Record<string, unknown>[] {
    return this.output.filter((line) => line.startsWith("{")).map((line) =>
      JSON.parse(line)
    );
  }

  /** Waits for an event in the log, whose lines have to have these fields. */
  async logged(event: string, fields: readonly string[]): Promise<void> {
    const find = () => this.lines().find(({ msg }) => msg === event);
    await this.eventually(`${event} in the log`, () => find() !== undefined);
    const missing = fields.filter((field) => !(field in find()!));
    expect(
      missing.length === 0,
      `expected ${event} with ${missing.join(", ")}`,
    );
  }

  /** Asks again and again whether something is so, for as long as it may take. */
  async eventually(
    what: string,
    isSo: () => boolean | Promise<boolean>,
    timeoutMs = this.#timeoutMs,
  ): Promise<void> {
    const end = performance.now() + timeoutMs;
    while (!await isSo()) {
      expect(
        performance.now() < end,
        `expected ${what} within ${timeoutMs / 1_000} s`,
      );
      await delay(RETRY_MS);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill("SIGTERM");
    await deadline(this.#ended, START_TIMEOUT_MS).catch(() =>
      this.#kill("SIGKILL")
    );
    await this.#ended;
  }

  #kill(signal: Deno.Signal): void {
    try {
      this.#child.kill(signal);
    } catch {
      // it has ended
    }
  }

  async #collect(
    stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  ): Promise<void> {
    const lines = stream.pipeThrough(new TextDecoderStream()).pipeThrough(
      new TextLineStream(),
    );
    for await (const line of lines) this.output.push(line);
  }
}
