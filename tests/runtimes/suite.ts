/** What the module does in every runtime. It imports the package by its name, so that it runs wherever that is installed. */
import {
  ConfigurationError,
  createGateway,
  memoryStore,
  openStore,
  toNodeHandler,
} from "@rep/gateway";
import { type Check, equal, messageOfRejection } from "./check.ts";
import { CLIENT_CHECKS } from "./client_checks.ts";
import {
  decrypt,
  isUnchanged,
  ORIGIN,
  readConfiguration,
  StreamReader,
  VARIABLES,
  withGateway,
} from "./fixtures.ts";

/** What a browser sends from a page of the gateway's own origin. */
const SAME_ORIGIN = { headers: { "sec-fetch-site": "same-origin" } };
const OTHER = "https://other.example";
const HOT = { hotReload: true };
/** A page of an application that has a version. */
const ETAG = { headers: { "content-type": "text/html", etag: '"1"' } };
const MASTER_KEY = new Uint8Array(32).fill(7);

const HEALTH: readonly Check[] = [
  {
    name: "health counts the variables of each tier",
    run: () =>
      withGateway({}, async ({ ask }) => {
        const response = await ask("/rep/health");
        const { status, variables } = await response.json();
        equal([response.status, response.headers.get("cache-control")], [
          200,
          "no-store",
        ]);
        equal([status, variables], ["healthy", {
          public: 1,
          sensitive: 1,
          server: 1,
        }]);
      }),
  },
  {
    name: "HEAD of health has no body, and POST is not allowed",
    run: () =>
      withGateway({}, async ({ ask }) => {
        equal(await (await ask("/rep/health", { method: "HEAD" })).text(), "");
        const { status, headers } = await ask("/rep/health", {
          method: "POST",
        });
        equal([status, headers.get("allow")], [405, "GET, HEAD"]);
      }),
  },
  {
    name: "health is 503 once the shutdown has begun",
    run: () =>
      withGateway({}, async ({ ask, gateway }) => {
        gateway.beginShutdown();
        const response = await ask("/rep/health");
        equal([response.status, (await response.json()).status], [
          503,
          "stopping",
        ]);
      }),
  },
  {
    name: "handle() leaves the paths of others alone, and fetch() rejects them",
    run: () =>
      withGateway({}, async ({ ask, gateway }) => {
        equal(
          await gateway.handle(new Request(`${ORIGIN}/index.html`)) ===
            undefined,
          true,
        );
        equal(
          (await gateway.handle(new Request(`${ORIGIN}/rep/health`)))?.status,
          200,
        );
        equal((await ask("/index.html")).status, 404);
      }),
  },
  {
    name: "hosts that are not allowed get 421",
    run: () =>
      withGateway({ allowedHosts: ["elsewhere.example"] }, async ({ ask }) => {
        equal((await ask("/rep/session-key", SAME_ORIGIN)).status, 421);
      }),
  },
  {
    name: "a base path is part of every path",
    run: () =>
      withGateway(
        { basePath: "/app", hotReload: true },
        async ({ ask, page }) => {
          equal([
            (await ask("/app/rep/health")).status,
            (await ask("/rep/health")).status,
          ], [200, 404]);
          const { payload } = await readConfiguration(await page());
          equal(payload._meta.hot_reload.startsWith("/app/rep/changes?"), true);
        },
      ),
  },
  {
    name: "the client is served in the coding that a browser accepts",
    run: () =>
      withGateway({}, async ({ ask }) => {
        const codings = ["br, gzip", "gzip", "identity"].map(
          async (accepted) => {
            const { headers } = await ask("/rep/client.js", {
              headers: { "accept-encoding": accepted },
            });
            return headers.get("content-encoding");
          },
        );
        equal(await Promise.all(codings), ["br", "gzip", null]);
      }),
  },
  {
    name: "the health port has probes and metrics",
    run: () =>
      withGateway({ separateHealth: true }, async ({ ask, gateway }) => {
        const paths = ["/livez", "/readyz", "/metrics", "/rep/health"];
        const answers = paths.map(async (path) =>
          (await gateway.fetchHealth(new Request(ORIGIN + path))).status
        );
        equal(await Promise.all(answers), [200, 200, 200, 200]);
        equal((await ask("/rep/health")).status, 404);
      }),
  },
];

const KEYS: readonly Check[] = [
  {
    name:
      "a page of the gateway's own origin gets a key of 32 bytes, for at most 30 s",
    run: () =>
      withGateway({}, async ({ ask }) => {
        const response = await ask("/rep/session-key", SAME_ORIGIN);
        const { key, expires_at } = await response.json();
        equal(
          [response.status, response.headers.get("vary"), atob(key).length],
          [200, "Origin", 32],
        );
        equal(
          Math.abs(Date.parse(expires_at) - Date.now() - 30_000) < 5_000,
          true,
        );
      }),
  },
  {
    name: "an allowed origin gets a key, and may read it",
    run: () =>
      withGateway({ allowedOrigins: [OTHER] }, async ({ ask }) => {
        const { status, headers } = await ask("/rep/session-key", {
          headers: { origin: OTHER },
        });
        equal([status, headers.get("access-control-allow-origin")], [
          200,
          OTHER,
        ]);
      }),
  },
  {
    name: "another origin gets no key",
    run: () =>
      withGateway({}, async ({ ask, lines }) => {
        const { status, headers } = await ask("/rep/session-key", {
          headers: { origin: OTHER },
        });
        equal([status, headers.get("content-type")], [
          403,
          "application/problem+json",
        ]);
        equal(headers.get("access-control-allow-origin"), null);
        equal(
          lines.some(({ msg }) => msg === "rep.session_key.rejected"),
          true,
        );
      }),
  },
  {
    name: "a preflight is answered",
    run: () =>
      withGateway({ allowedOrigins: [OTHER] }, async ({ ask }) => {
        const headers = {
          origin: OTHER,
          "access-control-request-method": "GET",
        };
        equal(
          (await ask("/rep/session-key", { method: "OPTIONS", headers }))
            .status,
          204,
        );
      }),
  },
  {
    name: "there are no keys without SENSITIVE variables",
    run: () =>
      withGateway({ variables: { REP_PUBLIC_A: "1" } }, async ({ ask }) => {
        equal((await ask("/rep/session-key", SAME_ORIGIN)).status, 404);
      }),
  },
  {
    name:
      "a client gets so many keys a minute and no more, and another one gets its own",
    run: () =>
      withGateway({ sessionKeyMaxRate: 2 }, async ({ ask }) => {
        const statuses: number[] = [];
        for (const _ of [1, 2, 3]) {
          statuses.push((await ask("/rep/session-key", SAME_ORIGIN)).status);
        }
        equal(statuses, [200, 200, 429]);
        const { headers } = await ask("/rep/session-key", SAME_ORIGIN);
        equal(Number(headers.get("retry-after")) > 0, true);
        equal(
          (await ask("/rep/session-key", SAME_ORIGIN, "192.0.2.2")).status,
          200,
        );
      }),
  },
  {
    name: "many requests at once get no more keys than a client may have",
    run: () =>
      withGateway({}, async ({ ask }) => {
        const all = await Promise.all(
          Array.from(
            { length: 25 },
            () => ask("/rep/session-key", SAME_ORIGIN),
          ),
        );
        equal(all.filter(({ status }) => status === 200).length, 10);
      }),
  },
  {
    name: "a kid that is none is 400, and one that is too old is 410",
    run: () =>
      withGateway({}, async ({ ask, page }) => {
        equal((await ask("/rep/session-key?kid=x", SAME_ORIGIN)).status, 400);
        const endpoint =
          (await readConfiguration(await page())).payload._meta.key_endpoint;
        equal(
          (await ask(endpoint.replace(/kid=\d+/, "kid=600"), SAME_ORIGIN))
            .status,
          410,
        );
      }),
  },
  {
    name: "every key is in the audit log, without the key",
    run: () =>
      withGateway({}, async ({ ask, lines }) => {
        const { key } = await (await ask("/rep/session-key", SAME_ORIGIN))
          .json();
        const issued = lines.filter(({ msg }) =>
          msg === "rep.session_key.issued"
        );
        equal([issued.length, JSON.stringify(lines).includes(key)], [1, false]);
      }),
  },
];

const PAGES: readonly Check[] = [
  {
    name: "inject() adds the configuration, and changes nothing else",
    run: () =>
      withGateway({}, async ({ page }) => {
        const { rest, payload } = await readConfiguration(await page());
        equal([isUnchanged(rest), payload.public], [true, {
          TITLE: "</script>",
        }]);
      }),
  },
  {
    name: "a page contains neither SERVER values nor readable SENSITIVE ones",
    run: () =>
      withGateway({}, async ({ page }) => {
        const html = await (await page()).text();
        equal(
          [VARIABLES.REP_SERVER_SECRET, VARIABLES.REP_SENSITIVE_TOKEN].map((
            text,
          ) => html.includes(text)),
          [
            false,
            false,
          ],
        );
      }),
  },
  {
    name:
      "the integrity of a page is the SHA-256 of the text that a browser sees",
    run: () =>
      withGateway({}, async ({ page }) => {
        const { text, integrity } = await readConfiguration(await page());
        const hash = new Uint8Array(
          await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)),
        );
        equal(integrity, `sha256-${btoa(String.fromCharCode(...hash))}`);
        equal(text.includes("<"), false);
      }),
  },
  {
    name: "the key that a page names decrypts its SENSITIVE values",
    run: () =>
      withGateway({}, async ({ ask, page }) => {
        const configuration = await readConfiguration(await page());
        const { key } = await (await ask(
          configuration.payload._meta.key_endpoint,
          SAME_ORIGIN,
        )).json();
        equal(await decrypt(configuration, key), { TOKEN: "t0ken" });
      }),
  },
  {
    name:
      "gateways with one master key decrypt each other's pages, and those with another one do not",
    run: () =>
      withGateway(
        { masterKey: MASTER_KEY },
        ({ page }) =>
          withGateway({ masterKey: MASTER_KEY }, ({ ask }) =>
            withGateway({}, async ({ ask: askOther }) => {
              const configuration = await readConfiguration(await page());
              const { key_endpoint: endpoint } = configuration.payload._meta;
              const { key } = await (await ask(endpoint, SAME_ORIGIN)).json();
              equal(await decrypt(configuration, key), { TOKEN: "t0ken" });
              equal((await askOther(endpoint, SAME_ORIGIN)).status, 410);
            })),
      ),
  },
  {
    name: "inject() leaves what is no page as it is",
    run: () =>
      withGateway({}, async ({ gateway }) => {
        const response = Response.json({ html: "<head></head>" });
        equal(await gateway.inject(response) === response, true);
      }),
  },
  {
    name: "a page that has not changed is 304, and a changed one is not",
    // Without SENSITIVE variables, with which a page is not stored.
    run: () => {
      let variables = { REP_PUBLIC_TITLE: "A" };
      const options = { variables: () => variables };
      return withGateway(options, async ({ gateway, page }) => {
        const etag = (await page({}, ETAG)).headers.get("etag") ?? "";
        equal([
          etag !== "",
          (await page({ "if-none-match": etag }, ETAG)).status,
        ], [true, 304]);
        variables = { REP_PUBLIC_TITLE: "B" };
        await gateway.reload();
        equal((await page({ "if-none-match": etag }, ETAG)).status, 200);
      });
    },
  },
];

const STREAMS: readonly Check[] = [
  {
    name: "a stream begins with a time to reconnect, a comment, and a cursor",
    run: () =>
      withGateway(HOT, async ({ ask }) => {
        const response = await ask("/rep/changes?last_event_id=5");
        const stream = new StreamReader(response);
        const text = await stream.until(/^id: /m);
        equal(/^retry: \d+\n: .*\n/.test(text), true);
        equal(response.headers.get("content-type"), "text/event-stream");
        equal(
          response.headers.get("cache-control"),
          "no-cache, no-store, no-transform",
        );
        await stream.close();
      }),
  },
  {
    name:
      "a stream has the changes of a reload, in order, and those of PUBLIC variables only",
    run: () =>
      withGateway(HOT, async ({ ask, set }) => {
        const stream = new StreamReader(await ask("/rep/changes"));
        await stream.until(/^id: /m);
        await set({
          ...VARIABLES,
          REP_PUBLIC_TITLE: "B",
          REP_SERVER_SECRET: "C",
        });
        await set({ REP_PUBLIC_OTHER: "D" });
        const events = await stream.events(3);
        equal(
          events.map(({ type, data }) => [type, data.key, data.value]).sort(),
          [
            ["rep:config:delete", "TITLE", null],
            ["rep:config:update", "OTHER", "D"],
            ["rep:config:update", "TITLE", "B"],
          ],
        );
        const ids = events.map(({ id }) => id);
        equal(ids, [...new Set(ids)].sort((a, b) => a - b));
        await stream.close();
      }),
  },
  {
    name:
      "a stream replays every change after the id of a header, and the newest ones after the id of a page",
    run: () =>
      withGateway(HOT, async ({ ask, page, set }) => {
        const { hot_reload: path } =
          (await readConfiguration(await page())).payload._meta;
        const live = new StreamReader(await ask("/rep/changes"));
        for (const [index, value] of ["B", "C", "D"].entries()) {
          await set({ REP_PUBLIC_TITLE: value });
          await live.events(index + 1); // reloads in a row may be published as one
        }
        const [first] = await live.events(1);
        const all = new StreamReader(
          await ask("/rep/changes", {
            headers: { "last-event-id": String(first?.id) },
          }),
        );
        equal((await all.events(2)).map(({ data }) => data.value), ["C", "D"]);
        const newest = new StreamReader(await ask(path));
        equal((await newest.events(1)).map(({ data }) => data.value), ["D"]);
        await Promise.all([live, all, newest].map((stream) => stream.close()));
      }),
  },
  {
    name: "a cursor that means nothing gets the newest event of each variable",
    run: () =>
      withGateway(HOT, async ({ ask, set }) => {
        for (const value of ["B", "C"]) await set({ REP_PUBLIC_TITLE: value });
        const stream = new StreamReader(
          await ask("/rep/changes?last_event_id=nonsense"),
        );
        equal((await stream.events(1)).map(({ data }) => data.value), ["C"]);
        await stream.close();
      }),
  },
  {
    name: "there is no stream without hot reload",
    run: () =>
      withGateway(
        {},
        async ({ ask }) => equal((await ask("/rep/changes")).status, 404),
      ),
  },
  {
    name: "a client that has too many streams gets one that ends at once",
    run: () =>
      withGateway({ ...HOT, maxStreamsPerClient: 1 }, async ({ ask }) => {
        const stream = new StreamReader(await ask("/rep/changes"));
        await new StreamReader(await ask("/rep/changes")).end();
        await stream.close();
        const next = new StreamReader(await ask("/rep/changes"));
        await next.until(/^id: /m);
        await next.close();
      }),
  },
  {
    name: "a change reaches the streams of another gateway on the same store",
    run: async () => {
      const store = memoryStore();
      await withGateway(
        { ...HOT, store },
        ({ set }) =>
          withGateway({ ...HOT, store }, async ({ ask }) => {
            const stream = new StreamReader(await ask("/rep/changes"));
            await stream.until(/^id: /m);
            await set({ ...VARIABLES, REP_PUBLIC_TITLE: "B" });
            equal((await stream.events(1)).map(({ data }) => data.value), [
              "B",
            ]);
            await stream.close();
          }),
      );
    },
  },
  {
    name: "close() ends all streams",
    run: () =>
      withGateway(HOT, async ({ ask, gateway }) => {
        const stream = new StreamReader(await ask("/rep/changes"));
        await stream.until(/^id: /m);
        await Promise.all([gateway.close(), stream.end()]);
      }),
  },
];

const VARIABLE_CHECKS: readonly Check[] = [
  {
    name: "a reload with a mistake changes nothing, and health says so",
    run: () =>
      withGateway(
        {
          manifest:
            "version: '0.1.0'\nvariables:\n  TITLE: { tier: public, required: true }",
        },
        async (it) => {
          const error = await it.set({ REP_PUBLIC_OTHER: "1" }).catch((error) =>
            error
          );
          equal(error instanceof ConfigurationError, true);
          equal((await readConfiguration(await it.page())).payload.public, {
            TITLE: "</script>",
          });
          equal(
            (await (await it.ask("/rep/health")).json()).status,
            "degraded",
          );
        },
      ),
  },
  {
    name: "a manifest has defaults, and what they are not is a mistake",
    run: () => {
      const manifest =
        "version: '0.1.0'\nvariables:\n  N: { tier: public, type: number, default: '3' }";
      return withGateway({ manifest, variables: {} }, async ({ page }) => {
        equal((await readConfiguration(await page())).payload.public, {
          N: "3",
        });
        const rejection = messageOfRejection(
          createGateway({ manifest, variables: { REP_PUBLIC_N: "x" } }),
        );
        equal(/REP_PUBLIC_N|N must|number/.test(await rejection), true);
      });
    },
  },
  {
    name:
      "the patterns of a manifest are compiled by a library that is handed in",
    run: async () => {
      const manifest =
        "version: '0.1.0'\nvariables:\n  A: { tier: public, pattern: '[a-z]+' }";
      const options = { manifest, loadPatternLibrary: () => import("re2js") };
      await withGateway(
        { ...options, variables: { REP_PUBLIC_A: "abc" } },
        () => Promise.resolve(),
      );
      const rejection = messageOfRejection(
        createGateway({ ...options, variables: { REP_PUBLIC_A: "1" } }),
      );
      equal((await rejection).includes("[a-z]+"), true);
    },
  },
  {
    name:
      "the patterns of a manifest are compiled by the library that is installed",
    notInWorkers: "what is not in their bundle cannot be imported",
    run: async () => {
      const manifest =
        "version: '0.1.0'\nvariables:\n  A: { tier: public, pattern: '[a-z]+' }";
      await withGateway(
        { manifest, variables: { REP_PUBLIC_A: "abc" } },
        () => Promise.resolve(),
      );
      const rejection = messageOfRejection(
        createGateway({ manifest, variables: { REP_PUBLIC_A: "1" } }),
      );
      equal((await rejection).includes("[a-z]+"), true);
    },
  },
  {
    name: "strict mode rejects what looks like a secret",
    run: async () => {
      const variables = { REP_PUBLIC_KEY: `AKIA${"IOSFODNN7EXAMPLE"}` };
      const rejection = messageOfRejection(
        createGateway({ variables, strict: true }),
      );
      equal((await rejection).includes("KEY"), true);
    },
  },
  {
    name: "the variables are by default those of the process",
    notInWorkers: "a worker has no environment of a process",
    run: async () => {
      const gateway = await createGateway();
      const { variables } =
        await (await gateway.fetch(new Request(`${ORIGIN}/rep/health`))).json();
      await gateway.close();
      equal(variables.public, 1);
    },
  },
];

const STORES: readonly Check[] = [
  {
    name: "a commit to the memory store fails if a check does",
    run: async () => {
      const store = memoryStore();
      const version = await store.commit([{ key: ["a"], version: null }], [{
        key: ["a"],
        value: 1,
      }]);
      equal(typeof version, "string");
      equal(
        await store.commit([{ key: ["a"], version: null }], [{
          key: ["a"],
          value: 2,
        }]),
        undefined,
      );
      equal((await store.get(["a"]))?.value, 1);
      store.close();
    },
  },
  {
    name: "keys are counted in the store, for all gateways on it",
    run: async () => {
      const store = memoryStore();
      await withGateway(
        { store, sessionKeyMaxRate: 1 },
        ({ ask }) =>
          withGateway(
            { store, sessionKeyMaxRate: 1 },
            async ({ ask: askOther }) => {
              equal((await ask("/rep/session-key", SAME_ORIGIN)).status, 200);
              equal(
                (await askOther("/rep/session-key", SAME_ORIGIN)).status,
                429,
              );
            },
          ),
      );
    },
  },
  {
    name:
      "a store without a path is in memory where there is no Deno KV, and the log says so",
    run: async () => {
      const events: string[] = [];
      const warn = (event: string) => void events.push(event);
      const store = await openStore(undefined, {
        debug: warn,
        info: warn,
        warn,
        error: warn,
      });
      store.close();
      equal(
        events,
        "Deno" in globalThis && "openKv" in Deno ? [] : ["rep.store.memory"],
      );
    },
  },
];

const FILES: readonly Check[] = [
  {
    name:
      "readEnvFile() reads a file, and watchFiles() notices that it is replaced",
    notInWorkers: "a worker has no files",
    run: async () => {
      const { readEnvFile, watchFiles } = await import("@rep/gateway/sources");
      const { mkdtemp, rename, rm, writeFile } = await import(
        "node:fs/promises"
      );
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
      equal(
        (await messageOfRejection(readEnvFile(path))).includes(
          `app.env:1": expected NAME=value`,
        ),
        true,
      );
      await rm(directory, { recursive: true });
    },
  },
];

const SERVERS: readonly Check[] = [
  {
    name: "toNodeHandler() serves a server of node:http, streams included",
    notInWorkers: "a worker has no server of its own",
    run: () =>
      withGateway(HOT, async ({ gateway, set }) => {
        const { createServer } = await import("node:http");
        const server = createServer(toNodeHandler(gateway));
        await new Promise<void>((resolve) =>
          server.listen(0, "127.0.0.1", resolve)
        );
        const { port } = server.address() as { port: number };
        const response = await fetch(`http://127.0.0.1:${port}/rep/changes`);
        const stream = new StreamReader(response);
        await stream.until(/^id: /m);
        await set({ ...VARIABLES, REP_PUBLIC_TITLE: "B" });
        equal((await stream.events(1)).map(({ data }) => data.value), ["B"]);
        await stream.close();
        equal((await fetch(`http://127.0.0.1:${port}/other`)).status, 404);
        await new Promise((resolve) => server.close(resolve));
      }),
  },
  {
    name:
      "files and an upstream are served by Deno, and rejected by name elsewhere",
    run: async () => {
      if ("Deno" in globalThis) return;
      const rejections = [{ staticDir: "." }, {
        upstream: "http://127.0.0.1:9/",
      }].map((options) =>
        messageOfRejection(createGateway({ variables: VARIABLES, ...options }))
      );
      equal(
        (await Promise.all(rejections)).map((message) =>
          message.includes("expected Deno")
        ),
        [true, true],
      );
    },
  },
];

/** All checks. */
export const SUITE: readonly Check[] = [
  ...HEALTH,
  ...KEYS,
  ...PAGES,
  ...STREAMS,
  ...VARIABLE_CHECKS,
  ...STORES,
  ...FILES,
  ...SERVERS,
  ...CLIENT_CHECKS,
];
