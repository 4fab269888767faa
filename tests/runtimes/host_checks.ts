/** What the machine provides: the store of a path, the environment, files and servers. */
import { createGateway, openStore, toNodeHandler } from "@rep/gateway";
import { check, checkGateway, equal, messageOfRejection } from "./check.ts";
import { ORIGIN, StreamReader, VARIABLES } from "./fixtures.ts";

check(
  "a store without a path is in memory where there is no Deno KV, and the log says so",
  async () => {
    const lines: string[] = [];
    const record = (event: string, fields: unknown = {}) =>
      void lines.push(`${event} ${JSON.stringify(fields)}`);
    const log = { debug: record, info: record, warn: record, error: record };
    const store = await openStore(undefined, log);
    store.close();
    const hasKv = "Deno" in globalThis && "openKv" in Deno;
    equal(lines.length, hasKv ? 0 : 1);
    const advice = "Deno" in globalThis ? "--unstable-kv" : "kvStore()";
    equal(lines.every((line) => line.includes(advice)), true);
  },
);

check("the variables are by default those of the process", async () => {
  const gateway = await createGateway();
  const response = await gateway.fetch(new Request(`${ORIGIN}/rep/health`));
  const { variables } = await response.json();
  await gateway.close();
  equal(variables.public, 1);
}, "a worker has no environment of a process");

check(
  "readEnvFile() reads a file, and watchFiles() notices that it is replaced",
  async () => {
    const { readEnvFile, watchFiles } = await import("@rep/gateway/sources");
    const { mkdtemp, rename, rm, writeFile } = await import("node:fs/promises");
    const directory = await mkdtemp("rep-");
    const path = `${directory}/app.env`;
    await writeFile(path, "REP_PUBLIC_A=1\nOTHER=2\n");
    equal(await readEnvFile(path), { REP_PUBLIC_A: "1" });
    const { promise, resolve } = Promise.withResolvers<void>();
    const watcher = await watchFiles([path], resolve);
    const server = setInterval(() => {}, 1_000); // which the process runs for: watching does not keep it alive
    await writeFile(`${path}.new`, "REP_PUBLIC_A=2\n");
    await rename(`${path}.new`, path);
    await promise;
    clearInterval(server);
    watcher[Symbol.dispose]();
    equal(await readEnvFile(path), { REP_PUBLIC_A: "2" });
    await writeFile(`${directory}/REP_PUBLIC_B`, "3\n");
    equal(await readEnvFile(directory), { REP_PUBLIC_B: "3" });
    await writeFile(path, "REP_PUBLIC_A\n");
    const message = await messageOfRejection(readEnvFile(path));
    equal(message.includes('app.env:1": expected NAME=value'), true);
    await rm(directory, { recursive: true });
  },
  "a worker has no files",
);

checkGateway(
  "toNodeHandler() serves a server of node:http, streams included",
  { hotReload: true },
  async ({ gateway, set }) => {
    const { createServer } = await import("node:http");
    const server = createServer(toNodeHandler(gateway));
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    const { port } = server.address() as { port: number };
    const url = `http://127.0.0.1:${port}`;
    const stream = new StreamReader(await fetch(`${url}/rep/changes`));
    await stream.until(/^id: /m);
    await set({ REP_PUBLIC_TITLE: "B" });
    equal(await stream.values(1), ["B"]);
    await stream.close();
    equal((await fetch(`${url}/other`)).status, 404);
    await new Promise((resolve) => server.close(resolve));
  },
  "a worker has no server of its own",
);

check(
  "files and an upstream are served by Deno, and rejected by name elsewhere",
  async () => {
    if ("Deno" in globalThis) return;
    for (
      const content of [{ staticDir: "." }, { upstream: "http://a.test/" }]
    ) {
      const gateway = createGateway({ variables: VARIABLES, ...content });
      const message = await messageOfRejection(gateway);
      equal(message.includes("expected Deno"), true);
    }
  },
);
