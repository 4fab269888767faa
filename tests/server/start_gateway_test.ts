import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { relative } from "@std/path";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ConfigurationError } from "../../src/core/config/variables/snapshot.ts";
import { createLog, silentLog } from "../../src/core/observe/log.ts";
import {
  connectionInfo,
  respond,
  type ServerOptions,
  startGateway,
} from "../../src/server/start_gateway.ts";
import { withEnvironment } from "../_environment.ts";
import { captureLog } from "../_gateway.ts";
import { serviceLinks } from "../_service_links.ts";
import { TempDirectory } from "../_temp.ts";

const PAGE = "<!doctype html><html><head></head></html>";

/** The gateway of a process watches its files and listens to SIGTERM until the process ends. */
function testProcess(name: string, fn: () => Promise<void>): void {
  Deno.test({ name, fn, sanitizeOps: false, sanitizeResources: false });
}

/** Ends the gateway of the process, so that the next test can start another. */
function end(): Promise<void> {
  const closed = Promise.withResolvers<void>();
  const holder = globalThis as unknown as Record<symbol, {
    gateway?: Promise<{ close(): Promise<void> }>;
  }>;
  const shared = holder[Symbol.for("@rep/gateway/server")];
  const gateway = shared?.gateway;
  if (shared !== undefined) delete shared.gateway;
  Promise.resolve(gateway).then((it) => it?.close()).then(
    closed.resolve,
    closed.reject,
  );
  return closed.promise;
}

testProcess(
  "startGateway() starts one gateway, whose values come from files, and from the environment before these",
  async () => {
    await using project = await TempDirectory.make({
      "a.env": "REP_PUBLIC_A=file\nREP_PUBLIC_B=file\n",
      "b.env": "REP_PUBLIC_B=later\nREP_PUBLIC_C=later\n",
    });
    const options: ServerOptions = {
      envFile: [project.at("a.env"), project.at("b.env"), {
        path: project.at("missing.env"),
        required: false,
      }],
      log: silentLog,
    };
    await withEnvironment({ REP_PUBLIC_C: "environment" }, async () => {
      const [gateway, same] = await Promise.all([
        startGateway(options),
        startGateway(options),
      ]);
      assertEquals(gateway === same, true);
      const values = ["A", "B", "C"].map((name) => gateway.get(name));
      assertEquals(values, ["file", "later", "environment"]);
    }).finally(end);
  },
);

testProcess(
  "startGateway() takes no service link for a value, also instead of that of a file, and warns once",
  async () => {
    await using project = await TempDirectory.make({
      "a.env": "REP_PUBLIC_PORT=8080\n",
    });
    const links = serviceLinks("rep-public", "10.43.0.7");
    await withEnvironment(links, async () => {
      const { log, lines } = captureLog();
      const envFile = project.at("a.env");
      const gateway = await startGateway({ envFile, log });
      const values = ["PORT", "SERVICE_HOST", "PORT_8080_TCP"]
        .map((name) => gateway.get(name));
      assertEquals(values, ["8080", undefined, undefined]);
      const warnings = lines.filter((line) =>
        JSON.stringify(line).includes("enableServiceLinks")
      );
      assertEquals(warnings.length, 1);
    }).finally(end);
  },
);

testProcess(
  "startGateway() tries again after a start that failed, and follows the manifest and the env file",
  async () => {
    await using project = await TempDirectory.make({
      "app.env": "REP_PUBLIC_TITLE=Hello\n",
      ".rep.yaml":
        "version: '0.1.0'\nvariables:\n  OTHER: { tier: public, required: true }\n",
    });
    const manifest = project.at(".rep.yaml");
    const envFile = project.at("app.env");
    const start = () => startGateway({ manifest, envFile, log: silentLog });
    const error = await assertRejects(start);
    assertStringIncludes((error as Error).message, "OTHER");
    await project.write(
      ".rep.yaml",
      "version: '0.1.0'\nvariables:\n  TITLE: { tier: public }\n",
    );
    const gateway = await start();
    assertEquals(gateway.get("TITLE"), "Hello");
    const changed = new Promise((resolve) =>
      gateway.onChange("TITLE", resolve)
    );
    await project.write("app.env", "REP_PUBLIC_TITLE=Bye\n");
    const alive = setInterval(() => {}, 1_000); // a watcher does not keep a process alive
    assertEquals(await changed, "Bye");
    clearInterval(alive);
    await end();
  },
);

testProcess(
  "respond() answers /rep/*, and puts the configuration into pages with the values that they were rendered with",
  async () => {
    await using project = await TempDirectory.make({
      "app.env": "REP_PUBLIC_TITLE=Hello\n",
    });
    const options = { envFile: project.at("app.env"), log: silentLog };
    const headers = { "content-type": "text/html" };
    const ask = async (path: string) =>
      await (await respond(
        new Request(`http://localhost${path}`),
        () => new Response(PAGE, { headers }),
        options,
      )).text();
    assertStringIncludes(await ask("/rep/health"), '"healthy"');
    assertStringIncludes(await ask("/about"), '"TITLE":"Hello"');
    await end();
  },
);

testProcess(
  "connectionInfo() has the address of the connection, whatever headers say; without one the log says so once",
  async () => {
    const lines: string[] = [];
    const log = createLog({ write: (line) => lines.push(line) });
    await startGateway({ log });
    const server = createServer(async (_request, response) => {
      await Promise.resolve();
      response.end(JSON.stringify(connectionInfo()));
    });
    const listening = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", listening.resolve);
    await listening.promise;
    const { port } = server.address() as AddressInfo;
    const headers = { "x-forwarded-for": "203.0.113.9" };
    const asked = await fetch(`http://127.0.0.1:${port}/`, { headers });
    assertEquals(await asked.json(), {
      remoteAddr: { transport: "tcp", hostname: "127.0.0.1" },
    });
    assertEquals([connectionInfo(), connectionInfo()], [undefined, undefined]);
    const warnings = lines.filter((line) => line.includes("rep.peer.unknown"));
    assertEquals(warnings.length, 1);
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    await closed.promise;
    await end();
  },
);

testProcess(
  "respond() does not warn of the request that starts the gateway, whose connection nobody has announced",
  async () => {
    const holder = globalThis as unknown as Record<symbol, unknown>;
    const symbol = Symbol.for("@rep/gateway/server");
    const before = holder[symbol];
    delete holder[symbol]; // as in a process in which nothing has called this module
    const lines: string[] = [];
    const log = createLog({ write: (line) => lines.push(line) });
    const server = createServer(async (_request, response) => {
      const request = new Request("http://localhost/rep/health");
      const answer = await respond(request, () => new Response(), { log });
      response.end(await answer.text());
    });
    const listening = Promise.withResolvers<void>();
    server.listen(0, "127.0.0.1", listening.resolve);
    await listening.promise;
    const { port } = server.address() as AddressInfo;
    for (let count = 1; count <= 2; count++) {
      const asked = await fetch(`http://127.0.0.1:${port}/`);
      assertStringIncludes(await asked.text(), '"healthy"');
    }
    assertEquals(
      lines.filter((line) => line.includes("rep.peer.unknown")),
      [],
    );
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    await closed.promise;
    await end();
    holder[symbol] = before;
  },
);

testProcess(
  "startGateway() names the option and the path of a file that it cannot read, and how a file may be absent",
  async () => {
    await using project = await TempDirectory.make({
      "there.env": "REP_PUBLIC_A=1\n",
      "wrong.env": "no assignment\n",
    });
    const { path: root } = project;
    const missing = `${root}/lost.env`;
    const remedy = (path: string) =>
      `; if it may be absent, expected envFile: { path: "${path}", required: false }, and values in the environment`;
    const path = relative(Deno.cwd(), missing);
    const cases: [ServerOptions, string[]][] = [
      [{ envFile: missing }, [
        `Cannot read envFile "${missing}": No such file`,
        remedy(missing),
      ]],
      [{ envFile: { path: missing } }, [remedy(missing)]],
      [{ envFile: [`${root}/there.env`, missing] }, [remedy(missing)]],
      [{ envFile: path }, [`envFile "${missing}"`, remedy(path)]],
      [{ envFile: `${root}/there.env/x` }, [
        `Cannot read envFile "${root}/there.env/x": Not a directory`,
      ]],
      [{ envFile: `${root}/wrong.env` }, [
        `Cannot read envFile "${root}/wrong.env:1": expected NAME=value`,
      ]],
      [{ manifest: `${root}/lost.yaml` }, [
        `Cannot read manifest "${root}/lost.yaml": No such file`,
      ]],
      [{ manifest: root }, [
        `Cannot read manifest "${root}": expected a regular file`,
      ]],
    ];
    for (const [options, texts] of cases) {
      const error = await assertRejects(
        () => startGateway({ ...options, log: silentLog }),
        ConfigurationError,
      );
      assertEquals(error.message.split("\n").length, 1);
      for (const text of texts) assertStringIncludes(error.message, text);
    }
  },
);

testProcess(
  "startGateway() starts without a file that may be absent, and logs where the values come from",
  async () => {
    await using project = await TempDirectory.make({});
    const path = project.at("lost.env");
    await project.write("b.env", "REP_PUBLIC_B=1\n");
    const absent = { path, required: false };
    const both = [absent, project.at("b.env")];
    type EnvFiles = ServerOptions["envFile"];
    const counts: [Record<string, string>, EnvFiles, string, number][] = [
      [{}, absent, "WARN", 0],
      [{ REP_PUBLIC_A: "1" }, absent, "INFO", 1],
      [{}, both, "INFO", 1],
    ];
    for (const [environment, envFile, level, count] of counts) {
      const lines: string[] = [];
      const log = createLog({ write: (line) => lines.push(line) });
      await withEnvironment(environment, async () => {
        const gateway = await startGateway({ envFile, log });
        assertEquals(gateway.get("A"), environment["REP_PUBLIC_A"]);
        const [line] = lines.map((line) => JSON.parse(line))
          .filter(({ msg }) => msg === "rep.config.no_env_file");
        assertEquals(line.level, level);
        assertEquals(
          line.detail,
          `"${path}" is absent or empty: variables come from the environment (REP_PUBLIC_…) and other env files, which have ${count}`,
        );
      }).finally(end);
    }
  },
);
