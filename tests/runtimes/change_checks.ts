/** Streams, reloads and manifests. */
import { createGateway, memoryStore } from "@rep/gateway";
import { check, checkGateway, equal, messageOfRejection } from "./check.ts";
import { withGateway } from "./fixtures.ts";

const HOT = { hotReload: true };

checkGateway(
  "a stream begins with a time to reconnect, a comment, and a cursor",
  HOT,
  async ({ ask, openStream }) => {
    const stream = await openStream("/rep/changes?last_event_id=5");
    const text = await stream.until(/^id: /m);
    equal(/^retry: \d+\n: .*\n/.test(text), true);
    await stream.close();
    const { headers, body } = await ask("/rep/changes");
    equal(headers.get("content-type"), "text/event-stream");
    const cacheControl = "no-cache, no-store, no-transform";
    equal(headers.get("cache-control"), cacheControl);
    await body?.cancel();
  },
);

checkGateway(
  "a stream has the changes of a reload, in order, and those of PUBLIC variables only",
  HOT,
  async ({ openStream, set }) => {
    const stream = await openStream();
    await set({ REP_PUBLIC_TITLE: "B", REP_SERVER_SECRET: "C" });
    await set({ REP_PUBLIC_OTHER: "D" });
    const events = await stream.events(3);
    const changes = events.map(({ type, data }) => [
      type,
      data.key,
      data.value,
    ]);
    equal(changes.sort(), [
      ["rep:config:delete", "TITLE", null],
      ["rep:config:update", "OTHER", "D"],
      ["rep:config:update", "TITLE", "B"],
    ]);
    const ids = events.map(({ id }) => id);
    equal(ids, [...new Set(ids)].sort((a, b) => a - b));
    await stream.close();
  },
);

check(
  "a change reaches the streams of another gateway on the same store",
  async () => {
    const options = { hotReload: true, store: memoryStore() };
    await withGateway(
      options,
      ({ set }) =>
        withGateway(options, async ({ openStream }) => {
          const stream = await openStream();
          await stream.until(/^id: /m);
          await set({ REP_PUBLIC_TITLE: "B" });
          equal(await stream.values(1), ["B"]);
          await stream.close();
        }),
    );
  },
);

checkGateway("close() ends all streams", HOT, async (subject) => {
  const stream = await subject.openStream();
  await stream.until(/^id: /m);
  await Promise.all([subject.gateway.close(), stream.end()]);
});

/** Returns a manifest with one PUBLIC variable. */
function manifestOf(name: string, declaration: string): string {
  return `version: "0.1.0"
variables:
  ${name}: { tier: public, ${declaration} }
`;
}

const PATTERN = { manifest: manifestOf("A", "pattern: '[a-z]+'") };
const HANDED_IN = { ...PATTERN, loadPatternLibrary: () => import("re2js") };

/** The libraries that compile patterns, and why a worker has none. */
const LIBRARIES = [
  { library: "a library that is handed in", options: HANDED_IN, missing: "" },
  {
    library: "the library that is installed",
    options: PATTERN,
    missing: "what is not in the bundle of a worker cannot be imported",
  },
];

for (const { library, options, missing } of LIBRARIES) {
  checkGateway(
    `the patterns of a manifest are compiled by ${library}`,
    { ...options, variables: { REP_PUBLIC_A: "abc" } },
    async () => {
      const invalid = { ...options, variables: { REP_PUBLIC_A: "1" } };
      const message = await messageOfRejection(createGateway(invalid));
      equal(message.includes("[a-z]+"), true);
    },
    missing,
  );
}
