import { join } from "@std/path";
import { findFreePort } from "../free_port.ts";
import { findProgram } from "../find_program.ts";
import { RunningProcess } from "./process.ts";

const CONFIG = "examples/proxies/haproxy.cfg";

/** The ports in HAProxy's shipped configuration, by the replica that uses them. */
const PORTS = { a: [8080, 8081], b: [8090, 8091] } as const;

/** The names of the two servers in it. */
const SERVERS = { gateway: "a", second: "b" } as const;

/** Options of {@linkcode HaProxy}. */
export interface HaProxyOptions {
  readonly directory: string;
  /** A certificate and its key. */
  readonly pem: string;
  /** The ports of the replicas: for clients, and for its checks. */
  readonly ports: Readonly<Record<"a" | "b", readonly [number, number]>>;
  /** Called with what its checks find: "Server gateway/second is DOWN". */
  readonly onReport: (text: string) => void;
}

/** What is replaced in the shipped configuration. */
interface Places extends Pick<HaProxyOptions, "ports"> {
  readonly port: number;
  readonly pemPath: string;
}

/** HAProxy with the shipped configuration, whose ports, paths and number of connections are replaced. */
export class HaProxy implements AsyncDisposable {
  /** The port that replaces 443. */
  readonly port: number = findFreePort();
  /** The replicas that it considers up. */
  readonly up: Set<string> = new Set(Object.values(SERVERS));
  readonly #onReport: (text: string) => void;
  readonly #process: RunningProcess;

  private constructor(
    program: string,
    { path, port, onReport }: {
      path: string;
      port: number;
      onReport: (text: string) => void;
    },
  ) {
    this.port = port;
    this.#onReport = onReport;
    this.#process = new RunningProcess({
      program,
      args: ["-db", "-f", path],
      onLine: (line) => this.#read(line),
    });
  }

  static async start(options: HaProxyOptions): Promise<HaProxy> {
    const program = await findProgram("haproxy", ["/usr/sbin"]);
    if (program === undefined) {
      throw new Error("Cannot find HAProxy: expected Debian's package haproxy");
    }
    const { directory, pem, ports, onReport } = options;
    const port = findFreePort();
    const pemPath = join(directory, "gateway.pem");
    await Deno.writeTextFile(pemPath, pem);
    const path = join(directory, "haproxy.cfg");
    await Deno.writeTextFile(path, await readConfig({ port, pemPath, ports }));
    return new HaProxy(program, { path, port, onReport });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }

  #read(line: string): void {
    const [report, server, state] =
      /Server gateway\/(\w+) is (UP|DOWN)/.exec(line) ?? [];
    if (report === undefined) return;
    const replica = SERVERS[server as keyof typeof SERVERS];
    if (state === "UP") this.up.add(replica);
    else this.up.delete(replica);
    this.#onReport(report);
  }
}

/** Returns the shipped configuration for the second instance as well, with the drill's ports and paths. */
export async function readConfig(
  { port, pemPath, ports }: Places,
): Promise<string> {
  const replacements = [
    ["#server second", "server second"],
    ["maxconn 8000", "maxconn 1000"], // each takes two file descriptors
    ["bind :443", `bind 127.0.0.1:${port}`],
    ["/etc/ssl/gateway.pem", pemPath],
    ["abns@polls", `abns@polls-${port}`], // there may be another HAProxy
  ];
  for (const name of ["a", "b"] as const) {
    const [shipped, shippedHealth] = PORTS[name];
    const [own, ownHealth] = ports[name];
    replacements.push(
      [`127.0.0.1:${shipped}`, `127.0.0.1:${own}`],
      [`check port ${shippedHealth}`, `check port ${ownHealth}`],
    );
  }
  let text = await Deno.readTextFile(CONFIG);
  for (const [from, to] of replacements as [string, string][]) {
    if (!text.includes(from)) {
      throw new Error(`Cannot replace "${from}": expected it in ${CONFIG}`);
    }
    text = text.replaceAll(from, to);
  }
  return text;
}
