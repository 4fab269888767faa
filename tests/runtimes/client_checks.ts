/** The client in a page of the gateway, of which the runtimes have only the parts that the client uses. */
import type { Client } from "@rep/gateway/client";
import { checkGateway, equal } from "./check.ts";
import { ORIGIN, type StreamReader, type Subject } from "./fixtures.ts";

/** An `EventSource` over the gateway itself. */
function eventSourceOf({ openStream }: Subject) {
  return class {
    readyState = 0;
    onopen: (() => void) | null = null;
    readonly #listeners = new Map<
      string,
      (event: { type: string; data: string; lastEventId: string }) => void
    >();
    readonly #opened: Promise<StreamReader>;

    constructor(url: string) {
      this.#opened = openStream(url.slice(ORIGIN.length));
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
  subject: Subject,
  use: (client: Client) => Promise<void>,
): Promise<void> {
  const { text, integrity } = await subject.configuration();
  const element = { textContent: text, getAttribute: () => integrity };
  const browser = {
    document: { hidden: false, getElementById: () => element },
    location: { origin: ORIGIN },
    EventSource: eventSourceOf(subject),
    addEventListener: () => {},
    fetch: (url: string) => subject.requestKey(url.slice(ORIGIN.length)),
  };
  const before = Object.getOwnPropertyDescriptors(globalThis);
  for (const [name, value] of Object.entries(browser)) {
    const descriptor = { value, configurable: true, writable: true };
    Object.defineProperty(globalThis, name, descriptor);
  }
  try {
    const { rep } = await import("@rep/gateway/client");
    await use(rep);
  } finally {
    for (const name of Object.keys(browser)) {
      const descriptor = before[name as keyof typeof before];
      if (descriptor === undefined) Reflect.deleteProperty(globalThis, name);
      else Object.defineProperty(globalThis, name, descriptor);
    }
  }
}

// In one check, since a module is imported once.
checkGateway(
  "the client reads a page, decrypts its SENSITIVE values, and hears of changes",
  { hotReload: true },
  (subject) =>
    withClient(subject, async (client) => {
      equal(client.get("TITLE"), "</script>");
      equal([client.get("OTHER", "none"), client.verify()], ["none", true]);
      equal(client.meta()?.hotReloadAvailable, true);
      equal(await client.getSecure("TOKEN"), "t0ken");
      let stop = () => {};
      const changed = new Promise((resolve) => {
        stop = client.onChange("TITLE", (...values) => resolve(values));
      });
      await subject.set({ REP_PUBLIC_TITLE: "B" });
      equal(await changed, ["B", "</script>"]);
      equal(client.get("TITLE"), "B");
      stop(); // and its timers with it
    }),
  "the globals of a worker are those of all its requests",
);
