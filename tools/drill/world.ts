import { findPostgres, PostgresServer } from "../postgres.ts";
import { Addresses } from "./addresses.ts";
import { Certificates } from "./certificates.ts";
import { HaProxy } from "./proxy.ts";
import { run } from "./process.ts";
import type { Checkout } from "./checkout.ts";
import { Replica, type ReplicaOptions } from "./replica.ts";
import { Users, type UsersOptions } from "./users.ts";
import { until } from "./waiting.ts";
import { healthOf, type Watch } from "./watch.ts";

/** The exit code of `set` if not all gateways have taken the variable yet, which some faults cause on purpose. */
const NOT_TAKEN = 3;

const PAGE =
  "<!doctype html><html><head><title>App</title></head><body></body></html>";

/** The variables of the app. */
export const VARIABLES = {
  REP_PUBLIC_THEME: "dark",
  REP_PUBLIC_LIMIT: "10",
  REP_SENSITIVE_ANALYTICS_KEY: "UA-12345-1",
};

const MANIFEST = `
version: "0.1.0"
variables:
  THEME: { tier: public, type: string }
  LIMIT: { tier: public, type: number }
  PULSE: { tier: public, type: string }
  BANNER: { tier: public, type: string }
  ANALYTICS_KEY: { tier: sensitive, type: string }
`;

/** How much of everything there is. */
export interface Size {
  readonly streams: number;
  readonly requestsPerSecond: number;
  readonly secondsBetweenPulses: number;
  readonly stopDelay: number;
  readonly drain: number;
}

/** Options of {@linkcode startWorld}. */
export interface WorldOptions {
  readonly size: Size;
  /** The replicas begin with the first one. The commands `set` are of all of them, one after the other. */
  readonly checkouts: readonly [Checkout, ...Checkout[]];
  /** A directory of the drill's own. */
  readonly directory: string;
  readonly watch: Watch;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** Ends everything. */
  readonly stack: AsyncDisposableStack;
}

/** A process beside the two replicas. */
export type Beside =
  & Pick<ReplicaOptions, "name" | "variables">
  & Partial<Pick<ReplicaOptions, "flags" | "wrapper">>
  & {
    /** Its store. @default {that of the replicas} */
    readonly kv?: string;
    /** The flags for what it serves. @default {the upstream of the replicas} */
    readonly content?: readonly string[];
  };

/** A PostgreSQL server, two replicas on it with an upstream, HAProxy in front of them, and users. */
export interface World {
  readonly size: Size;
  readonly checkouts: readonly [Checkout, ...Checkout[]];
  readonly store: PostgresServer;
  readonly certificates: Certificates;
  readonly a: Replica;
  readonly b: Replica;
  readonly proxy: HaProxy;
  readonly users: Users;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** Starts HAProxy, with files in a directory of this name, in front of two replicas. */
  startProxy(name: string, a: Replica, b: Replica): Promise<HaProxy>;
  /** Returns a path in the directory of the drill. */
  at(name: string): string;
  /** Writes a variable to the store as an operator does; returns whether the command says that it did. */
  set(name: string, value: string): Promise<boolean>;
  /** Returns a process that HAProxy does not know; it is not started yet. */
  beside(options: Beside): Replica;
  /** Returns users of such a process, whose PULSE is in its env file. */
  usersOf(
    replica: Replica,
    target: Pick<UsersOptions, "url" | "client">,
  ): Users;
}

/** Starts everything. */
export async function startWorld(options: WorldOptions): Promise<World> {
  const { size, checkouts, directory, watch, random, signal, stack } = options;
  const at = (name: string) => `${directory}/${name}`;
  await Deno.writeTextFile(at("rep.yaml"), MANIFEST);
  const store = stack.use(await startPostgres());
  const certificates = await Certificates.create(directory);
  const upstream = startUpstream(stack);
  const published = new Set<number>();
  const { streams, requestsPerSecond, secondsBetweenPulses } = size;

  const beside = ({ name, variables, ...rest }: Beside) => {
    const { flags = [], wrapper = [], kv } = rest;
    const { content = ["--upstream", upstream] } = rest;
    const onLine = (line: string) => {
      watch.read(name, line);
      const id = publishedId(line);
      if (kv === undefined && id !== undefined) published.add(id);
    };
    const replica = new Replica({
      name,
      checkout: checkouts[0],
      directory: at(name),
      variables,
      flags: [...content, ...appFlags(size), ...flags],
      env: {
        REP_GATEWAY_KV: kv ?? store.url(),
        REP_GATEWAY_MANIFEST: at("rep.yaml"),
      },
      wrapper,
      onLine,
      signal,
    });
    return stack.use(replica);
  };

  let commands = 0;
  const set = async (name: string, value: string) => {
    const checkout = checkouts[commands++ % checkouts.length]!;
    const args = [...checkout.args, "main.ts", "set", `${name}=${value}`];
    const { code, text } = await run(Deno.execPath(), args, {
      cwd: checkout.directory,
      env: {
        REP_GATEWAY_KV: store.url(),
        REP_GATEWAY_MANIFEST: at("rep.yaml"),
      },
    });
    watch.read("set", `${code}: ${text.trim()}`);
    return code === 0 || code === NOT_TAKEN;
  };

  const a = beside({ name: "a", variables: VARIABLES });
  const b = beside({ name: "b", variables: VARIABLES });
  await Promise.all([a.start(), b.start()]);
  for (const replica of [a, b]) stack.use(watch.follow(replica));

  const { cert, key } = await certificates.sign(
    new Date(Date.now() + 86_400_000),
  );
  const startProxy: World["startProxy"] = async (name, a, b) => {
    await Deno.mkdir(at(name));
    const proxy = await HaProxy.start({
      directory: at(name),
      pem: cert + key,
      ports: { a: [a.port, a.healthPort], b: [b.port, b.healthPort] },
      onReport: (text) => watch.add("HAProxy", `proxy ${text}`),
    });
    stack.use(proxy);
    await until(() => listens(proxy.port), { what: "HAProxy", signal });
    return proxy;
  };
  const proxy = await startProxy("proxy", a, b);

  const authority = await certificates.authority();
  const addresses = stack.use(await Addresses.open(proxy.port, authority));
  const users = stack.use(
    new Users({
      url: addresses.url,
      client: () => addresses.client,
      streams,
      published,
      requestsPerSecond,
      pulse: (value) => set("PULSE", `${value}`),
      secondsBetweenPulses,
      random,
    }),
  );

  const usersOf: World["usersOf"] = (replica, target) =>
    new Users({
      ...target,
      streams: 20,
      requestsPerSecond: 10,
      async pulse(value) {
        const pulse = { REP_PUBLIC_PULSE: `${value}` };
        await replica.setVariables({ ...replica.variables, ...pulse });
        return true;
      },
      secondsBetweenPulses,
      random,
    });

  return {
    size,
    checkouts,
    store,
    certificates,
    a,
    b,
    proxy,
    users,
    random,
    signal,
    startProxy,
    at,
    set,
    beside,
    usersOf,
  };
}

/** Whether nothing is left of a fault: both replicas are healthy and in use, and users have all events. */
export async function isHealthy(
  { a, b, proxy, users }: World,
): Promise<boolean> {
  if (proxy.up.size < 2 || !users.isUpToDate) return false;
  const healths = await Promise.all([a, b].map(healthOf));
  return healths.every((health) => health.has("healthy"));
}

async function startPostgres(): Promise<PostgresServer> {
  const bin = await findPostgres();
  if (bin === undefined) {
    throw new Error("Cannot find PostgreSQL: see tools/postgres.ts");
  }
  return await PostgresServer.create(bin, { settings: { fsync: "off" } });
}

/** Starts the app behind the replicas: a page, and the number of bytes of an upload. */
function startUpstream(stack: AsyncDisposableStack): string {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    async (request) => {
      const { length } = await request.bytes().catch(() => new Uint8Array());
      if (request.method === "POST") return new Response(`${length}`);
      return new Response(PAGE, { headers: { "content-type": "text/html" } });
    },
  );
  stack.defer(() => server.shutdown());
  return `http://127.0.0.1:${server.addr.port}`;
}

function appFlags({ stopDelay, drain }: Size): string[] {
  return [
    ...["--trusted-proxies", "127.0.0.1", "--allowed-hosts", "127.0.0.1"],
    ...["--stop-delay", `${stopDelay}s`, "--drain", `${drain}s`],
  ];
}

function publishedId(line: string): number | undefined {
  if (!line.includes('"rep.config.changed"')) return undefined;
  return JSON.parse(line).id;
}

async function listens(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}
