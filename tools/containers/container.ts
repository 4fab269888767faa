import { type Podman, run } from "./podman.ts";

/** How long anything may take that is waited for. */
const TIMEOUT_MS = 20_000;
const PAUSE_MS = 50;

/** Calls a function until it returns a value, or 20 s have passed. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined>,
): Promise<T> {
  const deadline = Date.now() + TIMEOUT_MS;
  let reason: unknown;
  while (Date.now() < deadline) {
    try {
      const found = await look();
      if (found !== undefined) return found;
    } catch (error) {
      reason = error;
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
  throw new Error(`Cannot see within 20 s: ${what}`, { cause: reason });
}

/**
 * A container of a gateway. It has a network of its own without any other interface than the loopback: nobody else
 * reaches its ports, although the gateway listens at all addresses.
 */
export class Container {
  readonly #podman: Podman;
  readonly #name: string;

  constructor(podman: Podman, name: string) {
    this.#podman = podman;
    this.#name = name;
  }

  async #inspect(format: string): Promise<string> {
    return await this.#podman.run("inspect", "--format", format, this.#name);
  }

  /** The first process in it, as this machine sees it. */
  async pid(): Promise<string> {
    return await this.#inspect("{{.State.Pid}}");
  }

  /** Requests a path of a port from within its network. @returns The body. */
  async request(port: number, path: string, ...args: string[]) {
    const url = `http://127.0.0.1:${port}${path}`;
    const curl = ["curl", "--silent", "--show-error", "--fail", ...args, url];
    return await run("nsenter", [
      `--net=/proc/${await this.pid()}/ns/net`,
      ...curl,
    ]);
  }

  /** Waits until it serves a page that contains a text. */
  async untilPageHas(text: string): Promise<void> {
    await until(`a page with ${text}`, async () => {
      await this.request(8081, "/readyz");
      const page = await this.request(8080, "/");
      return page.includes(text) || undefined;
    });
  }

  async untilLogged(text: string): Promise<void> {
    await until(`${text} in the log`, async () => {
      const log = await this.log();
      return log.includes(text) || undefined;
    });
  }

  /** Reads the stream of changes for a second. @param lastEventId Where it resumes. */
  async readStream(lastEventId?: string): Promise<string> {
    const since = lastEventId === undefined
      ? []
      : ["--header", `last-event-id: ${lastEventId}`];
    // curl fails when the time is over, which is how this stream ends.
    const script = 'curl --silent --no-buffer --max-time 1 "$@" || [ $? = 28 ]';
    const url = "http://127.0.0.1:8080/rep/changes";
    const net = `--net=/proc/${await this.pid()}/ns/net`;
    const shell = ["sh", "-c", script, "sh", ...since, url];
    return await run("nsenter", [net, ...shell]);
  }

  /** Runs a command of the gateway in it, as its users would. */
  async runCommand(...args: string[]): Promise<string> {
    const image = await this.#inspect("{{.Image}}");
    const format = ["--format", "{{json .Config.Entrypoint}}", image];
    const entrypoint = await this.#podman.run("image", "inspect", ...format);
    return await this.exec(...JSON.parse(entrypoint), ...args);
  }

  async exec(...args: string[]): Promise<string> {
    return await this.#podman.run("exec", this.#name, ...args);
  }

  async checkHealth(): Promise<void> {
    await this.#podman.run("healthcheck", "run", this.#name);
  }

  async start(): Promise<void> {
    await this.#podman.run("start", this.#name);
  }

  /** Stops it as an engine does: SIGTERM, and after a while SIGKILL. @returns The exit code, as in all that end it. */
  async stop(): Promise<number> {
    await this.#podman.run("stop", "--time", "30", this.#name);
    return await this.#exitCode();
  }

  async kill(): Promise<number> {
    await this.#podman.run("kill", "--signal", "KILL", this.#name);
    return await this.#exitCode();
  }

  /** Fills its memory until the kernel ends the gateway. */
  async exhaustMemory(): Promise<number> {
    const score = `/proc/${await this.pid()}/oom_score_adj`;
    await Deno.writeTextFile(score, "1000"); // it is ended first, not what fills the memory
    await this.#podman.hadTooLittleMemory();
    await this.exec("tail", "/dev/zero").catch(() => {}); // it ends with the container
    const exitCode = await this.#exitCode();
    if (await this.#podman.hadTooLittleMemory()) return exitCode;
    throw new Error("the memory was not exhausted");
  }

  async #exitCode(): Promise<number> {
    return Number(await this.#podman.run("wait", this.#name));
  }

  async log(): Promise<string> {
    return await this.#podman.run("logs", "--tail", "20", this.#name);
  }
}
