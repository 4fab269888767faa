import type { AsyncLocalStorage } from "node:async_hooks";
import {
  freezeValues,
  GATEWAYS,
  type ServerValues,
  type Values,
} from "../client/page.ts";
import type { PageValues } from "../core/pages/config_script.ts";

/** The values to which a request is pinned, so that everything in its page is rendered with the same values. */
interface Pin {
  /** The gateway of the values; `undefined` for a request that gets none. */
  readonly rendering: ServerRendering | undefined;
  readonly page: PageValues;
}

/** What all gateways of a process share, even if the process loads several copies of this module. */
interface Gateways extends ServerValues {
  /** Missing in workers without the compatibility flag for Node.js. */
  readonly requests: AsyncLocalStorage<Pin> | undefined;
  /** The running gateways, in the order in which they were started. */
  readonly running: Map<ServerRendering, () => PageValues>;
  /** Whether the client has read values, so that a page may have been rendered with them. */
  isRead: boolean;
}

/**
 * Provides code that renders pages in the gateway's process with the values that the pages are sent with. Such code
 * imports the client, which finds the values on `globalThis`.
 */
export class ServerRendering {
  readonly #gateways: Gateways;

  private constructor(gateways: Gateways) {
    this.#gateways = gateways;
  }

  /** Creates the shared part of the process unless it exists. */
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

  /** The values for the page of the current request; `undefined` outside {@linkcode run}. */
  get pinned(): PageValues | undefined {
    const pin = this.#gateways.requests?.getStore();
    return pin?.rendering === this ? pin.page : undefined;
  }

  /**
   * Makes this gateway the one whose values are read outside {@linkcode run}, until another gateway is opened.
   *
   * @param current Returns the values for a page that is sent now.
   */
  open(current: () => PageValues): void {
    this.#gateways.running.set(this, current);
  }

  /** Calls back. Everything that the callback, and the asynchronous work that it starts, reads is from the same moment. */
  run<T>(callback: () => T): T {
    const { requests, running } = this.#gateways;
    const current = running.get(this);
    const isPinned = this.pinned !== undefined;
    if (isPinned || requests === undefined || current === undefined) {
      return callback();
    }
    return requests.run({ rendering: this, page: current() }, callback);
  }

  /** Makes its values unavailable. */
  close(): void {
    this.#gateways.running.delete(this);
  }
}

const NO_VALUES: Pin = {
  rendering: undefined,
  page: { values: { public: new Map(), sensitive: new Map() }, cursor: 0 },
};

/** Calls back. For the callback, and the asynchronous work that it starts, no variable is set, whichever gateways run. */
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
    return undefined; // in a worker without the compatibility flag, run() only calls back
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

/** The values that were converted before: the client promises the same object until a value changes. */
const converted = new WeakMap<ReadonlyMap<string, string>, Values>();

function valuesOf(map: ReadonlyMap<string, string>): Values {
  const known = converted.get(map);
  if (known !== undefined) return known;
  const values = freezeValues(Object.fromEntries(map));
  converted.set(map, values);
  return values;
}
