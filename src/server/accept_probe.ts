import { type Clock, every, sleep, waitAtMost } from "../values/clock.ts";

/** Options of {@linkcode AcceptProbe}. */
interface AcceptProbeOptions {
  clock: Clock;
  /** Opens a connection to the server and closes it. It rejects if there can be none, or when the signal is aborted. */
  connect: (signal: AbortSignal) => Promise<void>;
  /** Called once, when the server has stopped accepting. */
  onSilence: () => void;
}

/** How often a server that nobody connects to is probed. */
const INTERVAL_MS = 5_000;
/** How long the server may take to accept the probe. */
const ACCEPT_MS = 1_000;

/**
 * Notices that a server has stopped accepting: `node:http` in Deno 2.9 does so for good, and reports nothing, when the
 * process runs out of file descriptors. The kernel still completes the handshake of every connection then.
 */
export class AcceptProbe {
  readonly #options: AcceptProbeOptions;
  readonly #stop: () => void;
  #accepted = 0;
  #lastAccepted = 0;

  constructor(options: AcceptProbeOptions) {
    this.#options = options;
    this.#stop = every(INTERVAL_MS, () => this.#check(), { clock: options.clock, onError: () => {} });
  }

  /** Call this for every connection that the server accepts. */
  accepted(): void {
    this.#accepted++;
  }

  /** Ends the probes. */
  close(): void {
    this.#stop();
  }

  async #check(): Promise<void> {
    if (this.#accepted > this.#lastAccepted) return void (this.#lastAccepted = this.#accepted);
    if (await this.#isAlive()) return;
    this.close();
    this.#options.onSilence();
  }

  async #isAlive(): Promise<boolean> {
    const { clock, connect } = this.#options;
    const end = new AbortController();
    let result: "connected" | "failed" | undefined;
    const attempt = connect(end.signal).then(() => result = "connected", () => result ??= "failed");
    await waitAtMost(ACCEPT_MS, attempt, clock); // with a full backlog, the kernel does not even complete the handshake
    const isAccepted = () => this.#accepted > this.#lastAccepted;
    if (result === "connected" && !isAccepted()) await sleep(ACCEPT_MS, clock, { isBackground: true });
    const isUnknown = result === "failed"; // such as without a free file descriptor
    end.abort();
    return isUnknown || isAccepted();
  }
}
