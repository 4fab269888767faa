/** The files in `examples/` that a reader would combine: started as they are, one in front of the other. */
import { assertEquals } from "@std/assert";
import { type AppClient, HOST } from "./_app_client.ts";
import {
  deployCompose,
  type Deployment,
  deployUnit,
  isHealthy,
  makeComposeProject,
  makeUnitDirectory,
  Pod,
  Volumes,
} from "./_deployment.ts";
import { ingressConfig, readIngress } from "./_ingress.ts";
import {
  atPorts,
  CADDY,
  HAPROXY,
  NGINX,
  PROXIES,
  type ProxyProgram,
  readConfig,
  replaceAll,
  RunningProxy,
  testProxy,
} from "./_proxy.ts";
import { readSse } from "./_sse.ts";
import type { RunningCommand } from "./_command.ts";
import { until } from "./_time.ts";

const ORIGIN = `https://${HOST}`;

/** The time that the comment on the second instance names: longer than HAProxy's check takes. */
const STOP_DELAY = ["--stop-delay", "8s"];

/** The prefixes of the annotations of two controllers. */
const CONTROLLERS = ["nginx.org/", "nginx.ingress.kubernetes.io/"];

/** What a proxy prints when its check of the gateway fails, and when it succeeds again; nginx does not check. */
const REPORTS: Record<string, { down: string; up: string; status: number }> = {
  [NGINX.name]: { down: "Connection refused", up: "", status: 502 },
  [HAPROXY.name]: {
    down: "Server gateway/gateway is DOWN",
    up: "Server gateway/gateway is UP",
    status: 503,
  },
  [CADDY.name]: {
    down: '"msg":"HTTP request failed"',
    up: '"msg":"host is up"',
    status: 503,
  },
};

async function start(
  program: ProxyProgram,
  path: string,
  { ports }: Deployment,
) {
  return await RunningProxy.start(
    program,
    path,
    atPorts(await readConfig(program), ports),
  );
}

async function statusOf(response: Promise<Response>) {
  const { status, body } = await response;
  await body?.cancel();
  return status;
}

async function testPage(app: AppClient, theme: string) {
  const response = await app.fetch("/");
  assertEquals(response.status, 200);
  const page = await response.text();
  assertEquals(
    [
      page.includes('<script id="__rep__"'),
      page.includes(`"THEME":"${theme}"`),
    ],
    [true, true],
    page,
  );
  assertEquals(
    await statusOf(app.fetch("/readyz")),
    404,
    "probes are on the health port only",
  );
}

/** Changes a variable in the way of a deployment, and expects an open stream to have it before the next heartbeat. */
async function testStream(
  app: AppClient,
  setTheme: (value: string) => Promise<void>,
) {
  const stream = readSse(await app.fetch("/rep/changes"));
  await stream.pull();
  for (const theme of ["light", "sepia"]) {
    await setTheme(theme);
    assertEquals((await stream.next())?.data.value, theme);
  }
  assertEquals(stream.text().includes(": heartbeat"), false); // a proxy that buffers would pass both on at once
  await stream.close();
}

/** Requests session keys as two clients, one of which requests too many and pretends to be others. */
async function testRateLimit(
  proxy: RunningProxy,
  processes: readonly RunningCommand[],
) {
  const [greedy, modest] = [
    await proxy.client({ from: "127.0.0.3" }),
    await proxy.client({ from: "127.0.0.4" }),
  ];
  const requestKey = (
    app: AppClient,
    forwardedFor: string,
    origin = ORIGIN,
  ) => {
    const headers = {
      origin,
      "x-forwarded-for": forwardedFor,
      "x-forwarded-port": "9443",
      "forwarded": "for=203.0.113.77;host=evil.example;proto=http",
    };
    return statusOf(app.fetch("/rep/session-key", { headers }));
  };
  const statuses: number[] = [];
  for (let sent = 0; sent < 11; sent++) {
    statuses.push(await requestKey(greedy, `203.0.113.${sent}`));
  }
  assertEquals(statuses, [...Array(10).fill(200), 429]);
  assertEquals(await requestKey(modest, "127.0.0.3"), 200);
  // The client cannot change the gateway's own origin.
  assertEquals(await requestKey(modest, "", `${ORIGIN}:9443`), 403);
  const issued = () =>
    processes.flatMap(({ output }) => output)
      .filter((line) => line.includes("rep.session_key.issued"))
      .map((line) => JSON.parse(line))
      .map(({ client_ip, origin }) => `${client_ip} ${origin}`);
  await until(() => issued().length >= 11); // a line may come after the response
  assertEquals(
    new Set(issued()),
    new Set([`127.0.0.3 ${ORIGIN}`, `127.0.0.4 ${ORIGIN}`]),
  );
}

/** Serves the ports of a gateway that has stopped, as the next one will. */
function startStandIn({ ports }: Deployment) {
  const servers = [...ports.values()].map((port) =>
    Deno.serve(
      { hostname: "127.0.0.1", port, onListen() {} },
      () => new Response(),
    )
  );
  return {
    async [Symbol.asyncDispose]() {
      await Promise.all(servers.map((server) => server.shutdown()));
    },
  };
}

/** Stops the gateway and starts it again, as the proxy sees it. */
async function testRestart(
  app: AppClient,
  { name }: ProxyProgram,
  proxy: RunningProxy,
  deployment: Deployment,
) {
  const { down, up, status } = REPORTS[name]!;
  deployment.process.signal("SIGTERM");
  assertEquals(await deployment.process.ended(), 0);
  const meetsRestart = statusOf(app.fetch("/"));
  if (name === NGINX.name) assertEquals(await meetsRestart, status); // this is its check
  else {
    await using _standIn = startStandIn(deployment);
    assertEquals(await meetsRestart, 200);
  }
  await proxy.printed(down);
  assertEquals(await statusOf(app.fetch("/")), status);
  await deployment.restart();
  await proxy.printed(up);
  await testPage(app, "sepia");
}

/** Whether the gateway is ready, for a deployment without a health check of its own. */
async function isReady({ ports }: Deployment) {
  return await statusOf(fetch(`http://127.0.0.1:${ports.get(8081)}/readyz`)) ===
    200;
}

/** Every file for one machine, with what makes it run. */
const DEPLOYMENTS = [
  {
    name: "examples/systemd",
    make: makeUnitDirectory,
    deploy: deployUnit,
    isHealthy: isReady,
  },
  {
    name: "examples/docker",
    make: makeComposeProject,
    deploy: deployCompose,
    isHealthy,
  },
];

for (const { name, make, deploy, isHealthy } of DEPLOYMENTS) {
  for (const program of PROXIES) {
    await testProxy(
      program,
      `examples/proxies/${program.config} in front of ${name}`,
      async (path, context) => {
        await using directory = await make();
        await using deployment = await deploy(directory);
        assertEquals(await isHealthy(deployment), true);
        await using proxy = await start(program, path, deployment);
        const app = await proxy.client({});
        await context.step(
          "pages have the configuration",
          () => testPage(app, "dark"),
        );
        await context.step(
          "an event arrives at once",
          () => testStream(app, (value) => deployment.setTheme(value)),
        );
        await context.step(
          "session keys are limited per client",
          () => testRateLimit(proxy, [deployment.process]),
        );
        await context.step(
          "the proxy knows when the gateway is down",
          () => testRestart(app, program, proxy, deployment),
        );
      },
    );
  }
}

/** Requests a page again and again until something has ended, and returns the statuses that occurred. */
async function statusesUntil(
  ended: Promise<unknown>,
  app: AppClient,
): Promise<number[]> {
  let hasEnded = false;
  ended.then(() => hasEnded = true);
  const statuses = new Set<number>();
  while (!hasEnded) statuses.add(await statusOf(app.fetch("/")));
  return [...statuses];
}

/** The comments that name a second instance, and what the proxy reports when the first one stops. */
const SECOND_INSTANCES = [
  {
    program: HAPROXY,
    comment: "#server second",
    reported: "DOWN, reason: Layer7 wrong status, code: 503",
  },
  { program: NGINX, comment: "#server 127.0.0.1:8090", reported: "[error]" },
];

for (const { program, comment, reported } of SECOND_INSTANCES) {
  const name =
    `examples/proxies/${program.config} goes on to the second instance when the first stops: no request fails`;
  await testProxy(program, name, async (path) => {
    await using directory = await makeUnitDirectory();
    await using first = await deployUnit(directory, ...STOP_DELAY);
    await using second = await deployUnit(directory, ...STOP_DELAY);
    const ports = new Map([...first.ports, [8090, second.ports.get(8080)!], [
      8091,
      second.ports.get(8081)!,
    ]]);
    const config = replaceAll(await readConfig(program), [[
      comment,
      comment.slice(1),
    ]]);
    await using proxy = await RunningProxy.start(
      program,
      path,
      atPorts(config, ports),
    );
    const app = await proxy.client({});
    first.process.signal("SIGTERM");
    assertEquals(await statusesUntil(first.process.ended(), app), [200]);
    for (let sent = 0; sent < 10; sent++) {
      assertEquals(await statusOf(app.fetch("/")), 200);
    }
    await proxy.printed(reported);
  });
}

await testProxy(
  NGINX,
  "examples/kubernetes: pods behind what ingress.yaml amounts to",
  async (path, context) => {
    const ingress = await readIngress();
    await using stack = new AsyncDisposableStack();
    const volumes = stack.use(await Volumes.mount());
    const configs = CONTROLLERS.map((controller) => () =>
      ingressConfig(ingress, controller, endpoints(pods))
    );
    const proxies: RunningProxy[] = [];
    const reload = () =>
      void proxies.map((proxy, at) => proxy.reload(configs[at]!()));
    const pods = await Promise.all(
      Array.from(
        { length: volumes.replicas },
        () => Pod.start(volumes, reload),
      ),
    );
    for (const pod of pods) {
      stack.use(pod);
    }
    for (const pod of pods) await pod.ready;
    for (const config of configs) {
      proxies.push(
        stack.use(await RunningProxy.start(NGINX, path, config())),
      );
    }
    const [first, last] = [pods[0]!, proxies.at(-1)!];

    for (const [at, controller] of CONTROLLERS.entries()) {
      const app = await proxies[at]!.client({});
      await context.step(
        `${controller}: pages have the configuration`,
        () => testPage(app, at === 0 ? "dark" : "sepia"),
      );
      await context.step(
        `${controller}: an event arrives at once`,
        () => testStream(app, (value) => volumes.setTheme(value)),
      );
    }
    await context.step(
      "session keys are limited per client, across pods",
      async () => {
        await testRateLimit(last, pods.map(({ process }) => process));
      },
    );
    await context.step(
      "a pod that stops leaves the endpoints before it stops to serve, and no request fails",
      async () => {
        const app = await last.client({ http: 1, keepAlive: false });
        first.process.signal("SIGTERM");
        const statuses = statusesUntil(first.process.ended(), app);
        await first.unready;
        assertEquals(await first.isListening(), true);
        assertEquals(await statuses, [200]);
        assertEquals(await first.process.ended(), 0);
        assertEquals(pods.map(({ kills }) => kills), [0, 0, 0]);
      },
    );
  },
);

/** Returns the addresses of the pods that are ready, at the port to which the Service of the Ingress leads. */
function endpoints(pods: readonly Pod[]): string[] {
  return pods.filter(({ isReady }) => isReady).map(({ ports }) =>
    `127.0.0.1:${ports.get("http")}`
  );
}
