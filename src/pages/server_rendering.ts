import type { AsyncLocalStorage } from "node:async_hooks";
import {
  freezeValues,
  GATEWAYS,
  type ServerValues,
  type Values,
} from "../client/page.ts";
import type { PageValues } from "./config_script.ts";

/** What a request was pinned to. */
interface Pin {
  /** `undefined` if no gateway has anything to say about it. */
  readonly rendering: ServerRendering | undefined;
  readonly page: PageValues;
}

/** What the gateways of a process share, also those of several copies of this module. */
interface Gateways extends ServerValues {
  /** Missing in workers without the compatibility flag for Node.js. */
  readonly requests: AsyncLocalStorage<Pin> | undefined;
  /** Those that run, in the order in which they were started. */
  readonly running: Map<ServerRendering, () => PageValues>;
  /** Whether the client has read values: a page may then have been rendered with them. */
  isRead: boolean;
}

/**
 * Gives the code that renders pages in the gateway's process the values that the pages are sent with. The client, which
 * such code imports, finds them on `globalThis`.
 */
export class ServerRendering {
  readonly #gateways: Gateways;

  private constructor(gateways: Gateways) {
    this.#gateways = gateways;
  }

  /** Creates what the process has only once, if it is missing. */
  static async create(): Promise<ServerRendering> {
    const requests = await createRequests();
    const process = globalThis as { [GATEWAYS]?: Gateways };
    process[GATEWAYS] ??= createGateways(requests);
    return new ServerRendering(process[GATEWAYS]);
  }

  /** Whether a page may have been rendered with values of this process. */
  get isRead(): boolean {
    return this.#gateways.isRead;
  }

  /** What the pages of the current request are built from; `undefined` outside {@linkcode run}. */
  get pinned(): PageValues | undefined {
    const pin = this.#gateways.requests?.getStore();
    return pin?.rendering === this ? pin.page : undefined;
  }

  /**
   * Makes this gateway the one whose values are read outside {@linkcode run}, until another is opened.
   *
   * @param current Returns what a page that is sent now is built from.
   */
  open(current: () => PageValues): void {
    this.#gateways.running.set(this, current);
  }

  /** Calls back; all that is read then, and in what it starts, is of one moment. */
  run<T>(callback: () => T): T {
    const { requests, running } = this.#gateways;
    const current = running.get(this);
    const isPinned = this.pinned !== undefined;
    if (isPinned || requests === undefined || current === undefined) {
      return callback();
    }
    return requests.run({ rendering: this, page: current() }, callback);
  }

  /** Its values are not read any more. */
  close(): void {
    this.#gateways.running.delete(this);
  }
}

const NO_VALUES: Pin = {
  rendering: undefined,
  page: { values: { public: new Map(), sensitive: new Map() }, cursor: 0 },
};

/** Calls back; nothing that is read then, and in what it starts, is set, whichever gateways run. */
export function runWithoutValues<T>(callback: () => T): T {
  const process = globalThis as { [GATEWAYS]?: Gateways };
  const requests = process[GATEWAYS]?.requests;
  return requests ? requests.run(NO_VALUES, callback) : callback();
}

async function createRequests(): Promise<Gateways["requests"]> {
  try {
    const { AsyncLocalStorage } = await import("node:async_hooks");
    return new AsyncLocalStorage();
  } catch {
    return undefined; // a worker without the compatibility flag: run() only calls back
  }
}

function createGateways(requests: Gateways["requests"]): Gateways {
  const running: Gateways["running"] = new Map();
  return {
    requests,
    running,
    isRead: false,
    values() {
      this.isRead = true;
      const newest = [...running.values()].at(-1);
      const page = requests?.getStore()?.page ?? newest?.();
      return page && valuesOf(page.values.public);
    },
  };
}

/** The values that were read before, so that the same are the same object. */
const converted = new WeakMap<ReadonlyMap<string, string>, Values>();

function valuesOf(map: ReadonlyMap<string, string>): Values {
  const known = converted.get(map);
  if (known !== undefined) return known;
  const values = freezeValues(Object.fromEntries(map));
  converted.set(map, values);
  return values;
}
