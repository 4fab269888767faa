/**
 * Runs two gateways on two connections to one database, given as a URL, on Node.js: PostgreSQL by `pg`, Deno KV by
 * `@deno/kv`. Prints what happened, as JSON, and ends.
 */
import { openKv } from "@deno/kv";
import { createLog, kvStore, openStore, type Store } from "@rep/gateway";
import process from "node:process";
import { decrypt, withGateway } from "./fixtures.ts";

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
const options = { hotReload: true, sessionKeyMaxRate: 2 };
await withGateway(
  { ...options, store: first },
  (one) =>
    withGateway({ ...options, store: second }, async (other) => {
      const stream = await other.openStream();
      await stream.until(/^id: /m);
      await one.set({ REP_PUBLIC_TITLE: "B" });
      const [change] = await stream.values(1);
      await stream.close();
      const page = await one.configuration();
      const answer = await other.requestKey(page.payload._meta.key_endpoint);
      const { key } = await answer.json();
      const decrypted = await decrypt(page, key);
      const statuses = [
        (await one.requestKey()).status,
        (await one.requestKey()).status,
      ];
      const result = { change, decrypted, statuses, lines };
      // deno-lint-ignore no-console -- its result
      console.log(JSON.stringify(result));
    }),
);
for (const store of new Set([first, second])) store.close();
// A watch of an embedded database keeps the process, whoever opens it (@deno/kv 0.14).
if (path === ":memory:") process.exit();
