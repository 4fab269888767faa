import { assertEquals } from "@std/assert";
import { replaceGlobals, storageOf } from "./_page.ts";

/** A stream to which a test sends messages. */
class FakeStream {
  static opened: FakeStream[] = [];
  readyState = 1;
  readonly #listeners = new Map<string, (event: MessageEvent) => void>();

  constructor(readonly url: string) {
    FakeStream.opened.push(this);
  }

  addEventListener(type: string, listener: (event: MessageEvent) => void) {
    this.#listeners.set(type, listener);
  }

  tell(build: string) {
    const data = JSON.stringify({ build });
    this.#listeners.get("rep:build")?.(
      new MessageEvent("rep:build", { data, lastEventId: "1" }),
    );
  }

  close() {
    this.readyState = 2;
  }
}

const PAYLOAD = JSON.stringify({
  public: {},
  _meta: { hot_reload: "/rep/changes?last_event_id=1" },
});

Deno.test("onNewBuild() opens the stream and calls back with both ids, once for each build and tab, also later subscribers of the page; a rollback may bring a build again", async () => {
  let stored: Map<string, string> | undefined = new Map([
    ["rep:build:TOLD", "Z A"],
    ["rep:build:A", "Z"], // which a reload has brought
    ["rep:build:Y", "Z"], // which another one has followed, and then this page
  ]);
  const element = {
    textContent: PAYLOAD,
    dataset: { repBuild: "A" },
    getAttribute: (name: string) => name === "data-rep-build" ? "A" : null,
  };
  using _ = replaceGlobals({
    document: { hidden: false, getElementById: () => element },
    location: { origin: "https://app.test" },
    EventSource: FakeStream,
    addEventListener: () => {},
    setTimeout: () => 0,
    clearTimeout: () => {},
    sessionStorage: {
      getItem: (key: string) => storageOf(stored).getItem(key),
      setItem: (key: string, value: string) =>
        storageOf(stored).setItem(key, value),
      removeItem: (key: string) => storageOf(stored).removeItem(key),
    },
  });
  const { onNewBuild } = await import("../../../src/client/builds/mod.ts"); // the client reads the page
  const told: string[][] = [];
  const stop = onNewBuild((...ids) => void told.push(ids));
  const [stream] = FakeStream.opened;
  assertEquals(
    FakeStream.opened.map(({ url }) => new URL(url).search),
    ["?last_event_id=1&build=A&heartbeat=event"],
  );
  for (const build of ["TOLD", "B", "B", "TOLD", "B"]) stream?.tell(build);
  assertEquals(told, [["B", "A"]]);
  stream?.tell("Y");
  assertEquals(told.splice(1), [["Y", "A"]]);
  assertEquals([...stored], [
    ["rep:build:TOLD", "Z A"],
    ["rep:build:Y", "Z A"],
    ["rep:build:B", "A"],
  ]);
  const later: string[][] = [];
  const stopLater = onNewBuild((...ids) => void later.push(ids));
  await Promise.resolve();
  assertEquals(later.splice(0), [["Y", "A"]]);
  stored = undefined;
  stream?.tell("C");
  assertEquals([told.at(-1), later.at(-1)], [["C", "A"], ["C", "A"]]);
  stop();
  assertEquals(stream?.readyState, 1);
  stopLater();
  assertEquals(stream?.readyState, 2);
});
