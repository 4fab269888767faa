/** The client in a page of the gateway, of which the runtimes have only the parts that the client uses. */
import type { Client } from "@rep/gateway/client";
import { type Check, equal } from "./check.ts";
import {
  ORIGIN,
  readConfiguration,
  StreamReader,
  type Subject,
  VARIABLES,
  withGateway,
} from "./fixtures.ts";

/** An `EventSource` over the gateway itself. */
function eventSourceOf({ ask }: Subject) {
  return class {
    readyState = 0;
    onopen: (() => void) | null = null;
    readonly #listeners = new Map<
      string,
      (event: { type: string; data: string; lastEventId: string }) => void
    >();
    readonly #opened: Promise<StreamReader>;

    constructor(url: string) {
      this.#opened = ask(url.slice(ORIGIN.length)).then((response) =>
        new StreamReader(response)
      );
      void this.#read();
    }

    addEventListener(type: string, listener: () => void) {
      this.#listeners.set(type, listener);
    }

    close() {
      void this.#opened.then((stream) => stream.close());
    }

    /** One event is enough. */
    async #read() {
      const [event] = await (await this.#opened).events(1);
      const { type = "", data, id } = event ?? {};
      this.#listeners.get(type)?.({
        type,
        data: JSON.stringify(data),
        lastEventId: String(id),
      });
    }
  };
}

/** Sets what a browser has, imports the client, and removes it again. The client reads the page when it is imported. */
async function withClient(
  use: (client: Client, subject: Subject) => Promise<void>,
): Promise<void> {
  await withGateway({ hotReload: true }, async (subject) => {
    const { text, integrity } = await readConfiguration(await subject.page());
    const element = { textContent: text, getAttribute: () => integrity };
    const browser = {
      document: { hidden: false, getElementById: () => element },
      location: { origin: ORIGIN },
      EventSource: eventSourceOf(subject),
      addEventListener: () => {},
      fetch: (url: string) =>
        subject.ask(url.slice(ORIGIN.length), {
          headers: { "sec-fetch-site": "same-origin" },
        }),
    };
    const before = Object.keys(browser).map((name) =>
      [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const
    );
    for (const [name, value] of Object.entries(browser)) {
      Object.defineProperty(globalThis, name, {
        value,
        configurable: true,
        writable: true,
      });
    }
    try {
      const { rep } = await import("@rep/gateway/client");
      await use(rep, subject);
    } finally {
      for (const [name, descriptor] of before) {
        if (descriptor === undefined) Reflect.deleteProperty(globalThis, name);
        else Object.defineProperty(globalThis, name, descriptor);
      }
    }
  });
}

/** In one check, since a module is imported once. */
export const CLIENT_CHECKS: readonly Check[] = [{
  name:
    "the client reads a page, decrypts its SENSITIVE values, and hears of changes",
  notInWorkers: "the globals of a worker are those of all its requests",
  run: () =>
    withClient(async (client, { set }) => {
      equal(
        [client.get("TITLE"), client.get("OTHER", "none"), client.verify()],
        ["</script>", "none", true],
      );
      equal(client.meta()?.hotReloadAvailable, true);
      equal(await client.getSecure("TOKEN"), "t0ken");
      const changed = new Promise((resolve) =>
        client.onChange("TITLE", (...values) => resolve(values))
      );
      await set({ ...VARIABLES, REP_PUBLIC_TITLE: "B" });
      equal(await changed, ["B", "</script>"]);
      equal(client.get("TITLE"), "B");
    }),
}];
