/**
 * A rolling update from one build to the next behind the proxies in `examples/`: half way through, one gateway has the
 * old build and the other one the new, and no page misses its files. When the old one has stopped, the other one serves all.
 */
import { assertEquals } from "@std/assert";
import { setUp } from "./_gateway.ts";
import { ingressConfig, readIngress } from "./_ingress.ts";
import {
  atPorts,
  CADDY,
  HAPROXY,
  NGINX,
  type ProxyProgram,
  readConfig,
  replaceAll,
  RunningProxy,
  testProxy,
} from "./_proxy.ts";
import { serveLocally } from "./_serve.ts";
import { TempDirectory } from "./_temp.ts";

/** A gateway with a build of its own, on two ports. */
interface BuildGateway extends AsyncDisposable {
  readonly port: number;
  readonly healthPort: number;
}

/** @param like Whose ports it has, at another address. */
async function startBuild(
  build: string,
  like?: BuildGateway,
): Promise<BuildGateway> {
  const serve = (handler: Deno.ServeHandler<Deno.NetAddr>, port?: number) =>
    port === undefined ? serveLocally(handler) : Deno.serve(
      { hostname: "127.0.0.2", port, onListen() {} },
      handler,
    );

  await using stack = new AsyncDisposableStack();
  const directory = stack.use(
    await TempDirectory.make({
      "index.html":
        `<!doctype html><script type="module" src="/assets/${build}.js"></script>`,
    }),
  );
  await Deno.mkdir(directory.at("assets"));
  await directory.write(`assets/${build}.js`, `// the code of ${build}`);
  const { gateway } = stack.use(
    await setUp({ REP_PUBLIC_A: "1" }, {
      staticDir: directory.path,
      immutable: ["assets/*"],
      trustedProxies: ["127.0.0.1"],
    }),
  );
  const server = serve(gateway.fetch, like?.port);
  stack.defer(() => server.shutdown());
  const health = serve(
    (request) => gateway.fetchHealth(request),
    like?.healthPort,
  );
  stack.defer(() => health.shutdown());
  const all = stack.move();
  return {
    port: server.addr.port,
    healthPort: health.addr.port,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

/** Uncomments the block of a Caddyfile that begins with this line. */
function uncommentBlock(config: string, first: string): string {
  const lines = config.split("\n");
  const start = lines.findIndex((line) => line.trimStart().startsWith(first));
  const end = lines.findIndex((line, at) => at > start && line === "\t#}");
  return lines.map((line, at) =>
    at < start || at > end ? line : line.replace("#", "")
  ).join("\n");
}

/** The configurations with what their comments say of a second instance. */
const CONFIGS: {
  program: ProxyProgram;
  file: string;
  read: (endpoints: readonly BuildGateway[]) => Promise<string>;
}[] = [
  {
    program: HAPROXY,
    file: "proxies/haproxy.cfg",
    read: async () =>
      replaceAll(await readConfig(HAPROXY), [[
        "#server second",
        "server second",
      ]]),
  },
  {
    program: NGINX,
    file: "proxies/nginx.conf",
    read: async () =>
      replaceAll(await readConfig(NGINX), [[
        "#server 127.0.0.1:8090",
        "server 127.0.0.1:8090",
      ]]),
  },
  {
    program: CADDY,
    file: "proxies/Caddyfile",
    read: async () => {
      const config = uncommentBlock(
        await readConfig(CADDY),
        "#reverse_proxy /assets/*",
      );
      return config.replace(
        "reverse_proxy 127.0.0.1:8080 {",
        "reverse_proxy 127.0.0.1:8080 127.0.0.2:8080 {",
      );
    },
  },
  {
    program: NGINX,
    file: "kubernetes/ingress_assets.yaml",
    read: async (gateways) =>
      ingressConfig(
        await readIngress("ingress_assets.yaml"),
        "nginx.ingress.kubernetes.io/",
        gateways.map(({ port }) => `127.0.0.1:${port}`),
      ),
  },
];

for (const { program, file, read } of CONFIGS) {
  const name =
    `examples/${file} asks the other gateway for a file of its build, half way through an update`;
  await testProxy(program, name, async (path) => {
    await using before = await startBuild("before");
    const isLike = program === CADDY ? before : undefined;
    await using after = await startBuild("after", isLike);
    const ports = new Map([
      [8080, before.port],
      [8081, before.healthPort],
      [8090, after.port],
      [8091, after.healthPort],
    ]);
    const config = await read([before, after]);
    const isIngress = file.startsWith("kubernetes/");
    await using proxy = await RunningProxy.start(
      program,
      path,
      isIngress ? config : atPorts(config, ports),
    );
    const app = await proxy.client({ http: 1, keepAlive: false });
    const statuses: Record<string, number[]> = {};
    for (const build of ["before", "after", "neither"]) {
      const seen = new Set<number>();
      for (let sent = 0; sent < 12; sent++) {
        const response = await app.fetch(`/assets/${build}.js`);
        const text = await response.text();
        seen.add(response.status);
        if (response.ok) assertEquals(text, `// the code of ${build}`);
      }
      statuses[build] = [...seen];
    }
    assertEquals(statuses, { before: [200], after: [200], neither: [404] });
    if (isIngress) return; // the other Ingress has all other paths
    const pages = new Set<string | undefined>();
    for (let sent = 0; sent < 12; sent++) {
      const page = await (await app.fetch("/")).text();
      pages.add(/assets\/(\w+)\.js/.exec(page)?.[1]);
    }
    assertEquals([...pages].sort(), ["after", "before"]);
    const route = await app.fetch("/assets", { redirect: "manual" });
    assertEquals([route.status, (await route.text()).length > 0], [200, true]);
    await before[Symbol.asyncDispose]();
    for (let sent = 0; sent < 6; sent++) {
      const responses = await Promise.all(
        ["/", "/assets/after.js"].map((path) => app.fetch(path)),
      );
      const texts = await Promise.all(responses.map((it) => it.text()));
      assertEquals(responses.map(({ status }) => status), [200, 200]);
      assertEquals(texts.map((it) => it.includes("after")), [true, true]);
    }
  });
}
