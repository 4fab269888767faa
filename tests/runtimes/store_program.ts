/**
 * Runs two gateways on two connections to one database, given as a URL, on Node.js: PostgreSQL by `pg`, Deno KV by
 * `@deno/kv`. Prints what happened, as JSON, and ends.
 */
import { openKv } from "@deno/kv";
import { createLog, kvStore, openStore, type Store } from "@rep/gateway";
import process from "node:process";
import {
  decrypt,
  readConfiguration,
  StreamReader,
  VARIABLES,
  withGateway,
} from "./fixtures.ts";

const [path = ":memory:"] = process.argv.slice(2);
const lines: string[] = [];
const log = createLog({ write: (line: string) => void lines.push(line) });

async function open(): Promise<Store> {
  return path.startsWith("postgres:")
    ? await openStore(path, log)
    : kvStore(await openKv(path));
}

const first = await open();
const second = path === ":memory:" ? first : await open(); // each connection to memory has its own
const sameOrigin = { headers: { "sec-fetch-site": "same-origin" } };
await withGateway(
  { store: first, hotReload: true, sessionKeyMaxRate: 2 },
  ({ ask, page, set }) =>
    withGateway(
      { store: second, hotReload: true, sessionKeyMaxRate: 2 },
      async ({ ask: askSecond }) => {
        const stream = new StreamReader(await askSecond("/rep/changes"));
        await stream.until(/^id: /m);
        await set({ ...VARIABLES, REP_PUBLIC_TITLE: "B" });
        const [event] = await stream.events(1);
        await stream.close();
        const configuration = await readConfiguration(await page());
        const answer = await askSecond(
          configuration.payload._meta.key_endpoint,
          sameOrigin,
        );
        const decrypted = await decrypt(
          configuration,
          (await answer.json()).key,
        );
        const statuses = [
          (await ask("/rep/session-key", sameOrigin)).status,
          (await ask("/rep/session-key", sameOrigin)).status,
        ];
        // deno-lint-ignore no-console -- its result
        console.log(
          JSON.stringify({
            change: event?.data.value,
            decrypted,
            statuses,
            lines,
          }),
        );
      },
    ),
);
for (const store of new Set([first, second])) store.close();
// A watch of an embedded database keeps the process, whoever opens it (@deno/kv 0.14).
if (path === ":memory:") process.exit();
