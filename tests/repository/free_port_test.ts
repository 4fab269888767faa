import { assertEquals } from "@std/assert";
import { findFreePort } from "../../tools/free_port.ts";

const MODULE = import.meta.resolve("../../tools/free_port.ts");
const COUNT = 200;
/** Sends the ports that it gets. */
const THREAD = `
import { findFreePort } from "${MODULE}";
postMessage(Array.from({ length: ${COUNT} }, findFreePort));
`;

/** Starts a thread, and waits for its ports. The thread runs until it is terminated. */
async function startThread() {
  const url = `data:text/javascript,${encodeURIComponent(THREAD)}`;
  const worker = new Worker(url, { type: "module" });
  const received = Promise.withResolvers<number[]>();
  worker.onmessage = ({ data }) => received.resolve(data);
  return { worker, ports: await received.promise };
}

Deno.test("findFreePort() returns no port in two threads, and none twice in a row", async () => {
  const threads = await Promise.all([startThread(), startThread()]);
  const own = Array.from({ length: COUNT }, findFreePort);
  for (const { worker } of threads) worker.terminate();
  const all = [own, ...threads.map(({ ports }) => ports)].map((ports) =>
    new Set(ports)
  );
  const sizes = all.map(({ size }) => size);
  const total = new Set(all.flatMap((ports) => [...ports])).size;
  assertEquals(total, sizes.reduce((sum, size) => sum + size));
  assertEquals(sizes.every((size) => size > 90), true);
});
