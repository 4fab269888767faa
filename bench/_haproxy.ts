import { join } from "@std/path";
import { findProgram } from "../tools/find_program.ts";
import { findFreePort } from "../tools/free_port.ts";
import { SubjectProcess } from "./_subject_process.ts";

/** The ports of a server behind HAProxy. */
export interface ProxiedPorts {
  readonly port: number;
  /** Answers whether the server is ready. */
  readonly healthPort: number;
}

/** HAProxy, and what it finds. */
export class Haproxy implements AsyncDisposable {
  readonly #process: SubjectProcess;
  readonly #statsPort: number;

  constructor(process: SubjectProcess, statsPort: number) {
    this.#process = process;
    this.#statsPort = statsPort;
  }

  /** Where it listens, without a slash at the end. */
  get url(): string {
    return this.#process.url;
  }

  /** Returns whether it sends requests to a replica. */
  async isUp(replica: number): Promise<boolean> {
    const response = await fetch(`http://127.0.0.1:${this.#statsPort}/;csv`);
    const rows = (await response.text()).split("\n")
      .map((line) => line.split(","));
    const column = rows[0]?.indexOf("status") ?? -1;
    const row = rows.find(([backend, server]) =>
      backend === "gateway" && server === `s${replica}`
    );
    return row?.[column] === "UP";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process[Symbol.asyncDispose]();
  }
}

/**
 * Starts HAProxy in front of replicas, with the parts of `examples/proxies/haproxy.cfg` that updates need, without TLS
 * and with faster checks.
 *
 * @param asksOthers Whether it asks another replica for a file that is missing.
 */
export async function startHaproxy(
  root: string,
  replicas: readonly ProxiedPorts[],
  asksOthers: boolean,
): Promise<Haproxy> {
  const program = await findProgram("haproxy", ["/usr/sbin"]);
  if (program === undefined) {
    throw new Error("Cannot find HAProxy: expected Debian's package haproxy");
  }
  const [port, statsPort] = [findFreePort(), findFreePort()];
  const servers = (options: (replica: ProxiedPorts, index: number) => string) =>
    replicas.map((replica, index) =>
      `  server s${index} 127.0.0.1:${replica.port} ${options(replica, index)}`
    ).join("\n");
  const config = `
global
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout check 2s # of a busy machine
  timeout client 60s
  timeout server 60s
listen stats
  bind 127.0.0.1:${statsPort}
  stats enable
  stats uri /
frontend public
  bind 127.0.0.1:${port}
  ${asksOthers ? "use_backend immutable if { path_beg /assets/ }" : ""}
  default_backend gateway
backend gateway
  option httpchk GET /readyz
  retries 3
  retry-on conn-failure empty-response
  option redispatch 1
${
    servers(({ healthPort }) =>
      `check port ${healthPort} inter 100ms fall 2 rise 1`
    )
  }
backend immutable
  retries ${replicas.length - 1}
  retry-on conn-failure empty-response 404
  option redispatch 1
${servers((_, index) => `track gateway/s${index}`)}
`;
  const path = join(root, "haproxy.cfg");
  await Deno.writeTextFile(path, config);
  const process = await SubjectProcess.start({
    program,
    args: ["-db", "-q", "-f", path],
    port,
    readyPath: "/",
    readyStatus: 200,
  });
  return new Haproxy(process, statsPort);
}
