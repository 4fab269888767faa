import type { Environment } from "../../src/core/config/variables/tiers.ts";
import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import { createGateway } from "../../src/gateway.ts";
import type { Gateway } from "../../src/gateway_interface.ts";
import { createLog } from "../../src/core/observe/log.ts";
import type { Store } from "../../src/core/store/store.ts";
import type { Clock } from "../../src/core/values/clock.ts";
import type { Simulation } from "./_simulation.ts";
// What a gateway loads when it needs it is loaded now: the virtual time does not wait for a disk.
import "../../src/core/changes/changes.ts";
import "../../src/core/pages/config_script.ts";
import "../../src/core/pages/page.ts";
import "../../src/addons/server_rendering.ts";

const START = 1_700_000_000_000;
/** A store that takes seconds for one request counts as down. */
const MAX_MESSAGE_MS = 500;

/** A gateway as a process with its own clock, which can be killed. */
export class Process {
  readonly name: string;
  readonly #simulation: Simulation;
  readonly #connections = new Set<() => void>();
  #offset: number;
  /** What it was deployed with: the file as it was at its start or its last {@linkcode reload}, unless all share one. */
  #deployed: () => Environment;
  /** The maximum time that its sources take, and each message to or from the store. */
  #slownessMs = 0;
  #gateway: Gateway | undefined;
  #isReady = false;
  #isDead = false;
  #isStopping = false;

  constructor(simulation: Simulation, name: string) {
    this.#simulation = simulation;
    this.name = name;
    this.#offset = simulation.between(-30_000, 30_000);
    this.#deployed = simulation.file.copy();
    void this.#start();
  }

  async #start(): Promise<void> {
    const { random, options } = this.#simulation;
    const log = createLog({
      level: "warn",
      write: (line) => this.#simulation.note(`${this.name} ${line}`),
    });
    const variables = () => this.#readVariables();
    const gatewayOptions = {
      ...options,
      hotReload: true,
      log,
      random,
      clock: this.#clock(),
      store: this.#store(),
      variables,
    };
    try {
      this.#gateway = await createGateway(gatewayOptions);
      await this.#gateway.ready;
      this.#isReady = true;
      this.#simulation.note(`${this.name} is ready`);
    } catch (error) {
      this.#isDead = true;
      this.#simulation.note(`${this.name} does not start: ${error}`);
      if (!(error instanceof ConfigurationError)) {
        this.#simulation.fail(`${this.name} does not start: ${error}`);
      }
    }
  }

  get isDead(): boolean {
    return this.#isDead;
  }

  /** Whether a load balancer sends it new connections. */
  get isReady(): boolean {
    return this.#isReady && !this.#isDead && !this.#isStopping;
  }

  /** @param onLost Called when the process ends, whether it has answered or not. */
  fetch(request: Request, onLost: () => void): Promise<Response> {
    if (this.#isDead || this.#gateway === undefined) {
      return Promise.reject(new TypeError("connection refused"));
    }
    this.#connections.add(onLost);
    return Promise.resolve(this.#gateway.fetch(request));
  }

  /** Returns a page of the process; `undefined` if it ends first. */
  async page(html: string): Promise<string | undefined> {
    const response = await this.#gateway?.inject(
      new Response(html, { headers: { "content-type": "text/html" } }),
    );
    return await response?.text();
  }

  /** From now on, it reads its sources and the store slowly. */
  slowDown(maxMs: number): void {
    this.#slownessMs = maxMs;
  }

  async #readVariables(): Promise<Environment> {
    const { time, random, file } = this.#simulation;
    const read = file.isShared ? file.copy() : this.#deployed;
    if (this.#slownessMs > 0) await time.sleep(random() * this.#slownessMs);
    return read();
  }

  /** Deploys the file as it is now. @returns Whether it was valid. */
  async reload(): Promise<boolean> {
    this.#deployed = this.#simulation.file.copy();
    try {
      await this.#gateway?.reload();
      return true;
    } catch (error) {
      if (!(error instanceof ConfigurationError)) {
        this.#simulation.fail(`${this.name} fails to reload: ${error}`);
      }
      return false;
    }
  }

  /** Ends it like SIGKILL. */
  kill(): void {
    this.#isDead = true;
    for (const onLost of this.#connections) onLost();
  }

  /** Ends it like SIGTERM. */
  async stop(drainMs: number): Promise<void> {
    this.#isStopping = true;
    await this.#gateway?.close({ drainMs });
    this.#simulation.note(`${this.name} has stopped`);
    this.kill();
  }

  jump(ms: number): void {
    this.#offset += ms;
  }

  #clock(): Clock {
    const { time } = this.#simulation;
    return {
      now: () => START + Math.floor(time.now) + this.#offset,
      monotonic: () => time.now,
      after: (ms, callback) => time.after(ms, () => this.#isDead || callback()),
    };
  }

  #store(): Store {
    const { store } = this.#simulation;
    return {
      maxChecks: store.maxChecks,
      get: (key) => this.#request(() => store.get(key), "read"),
      getMany: (keys) => this.#request(() => store.getMany(keys), "read"),
      list: (prefix, options) =>
        this.#request(() => store.list(prefix, options), "read"),
      commit: (checks, writes) =>
        this.#request(() => store.commit(checks, writes), "write"),
      watch: (key, hint) =>
        this.#simulation.hasNotifications
          ? store.watch(key, () => this.#isDead || hint())
          : () => {},
      close: () => {},
    };
  }

  /** The time that a message to or from the store takes. */
  #delay(arrive: () => void): void {
    const { time, random } = this.#simulation;
    const ownMs = random() * Math.min(this.#slownessMs, MAX_MESSAGE_MS);
    if (ownMs === 0) this.#simulation.delay(arrive);
    else time.after(ownMs, () => this.#simulation.delay(arrive));
  }

  /** What is on its way when the process is killed may still reach the store; no answer reaches the process. */
  #request<T>(run: () => Promise<T>, kind: "read" | "write"): Promise<T> {
    return new Promise((resolve, reject) => {
      const answer = (settle: () => void) =>
        this.#delay(() => this.#isDead || settle());
      const rejectWith = (reason: string) =>
        answer(() => reject(new Error(reason)));
      this.#delay(() =>
        this.#simulation.reach(kind, {
          run: () =>
            run().then((result) => answer(() => resolve(result)), (error) =>
              answer(() => reject(error))),
          runWithoutAnswer: () =>
            void run().then(() =>
              rejectWith("the connection was lost"), () => {}),
          reject: rejectWith,
        })
      );
    });
  }
}
