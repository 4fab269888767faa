import { findFreePort } from "../tools/free_port.ts";
import { findProgram } from "../tools/find_program.ts";
import { AppClient, type AppClientOptions, TLS } from "./_app_client.ts";
import { TempDirectory } from "./_temp.ts";

/** A text in a file, and what a test replaces it by. */
export type Replacement = readonly [from: string, to: string];

/** Replaces texts in one pass, each of which must be there. @throws {Error} If one is not. */
export function replaceAll(
  text: string,
  replacements: readonly Replacement[],
): string {
  const missing = replacements.find(([from]) => !text.includes(from));
  if (missing !== undefined) {
    throw new Error(
      `Cannot replace "${missing[0]}": expected it to be in\n${text}`,
    );
  }
  const to = new Map(replacements);
  const anyOf = replacements.map(([from]) => from.replace(/[^\w\s]/g, "\\$&"))
    .join("|");
  return text.replace(new RegExp(anyOf, "g"), (from) => to.get(from) ?? from);
}

/** A program for which `examples/proxies` has a configuration. */
export interface ProxyProgram {
  name: string;
  /** The configuration, in `examples/proxies`. */
  config: string;
  /** What is replaced in it besides the gateway's ports. */
  replacements: (places: Places) => Replacement[];
  args: (path: string, directory: string) => string[];
  /** What makes its limits short enough for a test. */
  limits: (seconds: Limits) => Replacement[];
}

/** Where a proxy has its files, and the port that stands for 443. */
interface Places {
  directory: string;
  port: number;
}

/** The proxies' limits, shortened. */
export interface Limits {
  /** The time for a head. */
  head: number;
  /** The time without a byte. */
  idle: number;
}

/** nginx, also for the configuration that an Ingress amounts to. */
export const NGINX: ProxyProgram = {
  name: "nginx",
  config: "nginx.conf",
  replacements: ({ directory, port }) => [
    ["http {", `http { access_log off; ${temporaryPaths(directory)}`],
    ["listen 443", `listen 127.0.0.1:${port}`],
    ["/etc/ssl/gateway.crt", `${directory}/gateway.crt`],
    ["/etc/ssl/gateway.key", `${directory}/gateway.key`],
  ],
  args: (
    path,
    directory,
  ) => [
    "-e",
    "stderr",
    "-c",
    path,
    "-g",
    `daemon off; pid ${directory}/nginx.pid;`,
  ],
  limits: ({ head, idle }) => [
    ["client_header_timeout 10s", `client_header_timeout ${head}s`],
    ["send_timeout 60s", `send_timeout ${idle}s`],
    ["keepalive_timeout 60s", `keepalive_timeout ${idle}s`],
    ["proxy_read_timeout 60s", `proxy_read_timeout ${idle}s`],
  ],
};

/** HAProxy. */
export const HAPROXY: ProxyProgram = {
  name: "haproxy",
  config: "haproxy.cfg",
  replacements: ({ directory, port }) => [
    ["maxconn 8000", "maxconn 200"], // each takes two file descriptors
    ["bind :443", `bind 127.0.0.1:${port}`],
    ["abns@polls", `abns@polls-${port}`],
    ["/etc/ssl/gateway.pem", `${directory}/gateway.pem`],
  ],
  args: (path) => ["-db", "-f", path],
  limits: ({ head, idle }) => [
    ["timeout http-request 10s", `timeout http-request ${head}s`],
    ["timeout http-keep-alive 60s", `timeout http-keep-alive ${idle}s`],
    ["timeout client 60s", `timeout client ${idle}s`],
    ["timeout server 60s", `timeout server ${idle}s`],
  ],
};

/** Caddy. */
export const CADDY: ProxyProgram = {
  name: "caddy",
  config: "Caddyfile",
  replacements: ({ directory, port }) => [
    [
      "{\n\tservers",
      "{\n\tadmin off\n\tauto_https disable_redirects\n\tdefault_bind 127.0.0.1\n\tservers",
    ],
    ["https://app.example.com:443", `https://app.example.com:${port}`],
    ["/etc/ssl/gateway.crt", `${directory}/gateway.crt`],
    ["/etc/ssl/gateway.key", `${directory}/gateway.key`],
  ],
  args: (path) => ["run", "--config", path, "--adapter", "caddyfile"],
  limits: ({ head, idle }) => [
    ["read_header 10s", `read_header ${head}s`],
    ["idle 60s", `idle ${idle}s`],
  ],
};

/** Every program for which `examples/proxies` has a configuration. */
export const PROXIES: readonly ProxyProgram[] = [NGINX, HAPROXY, CADDY];

/** The folders that nginx would have below `/var`. */
function temporaryPaths(directory: string): string {
  const names = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return names.map((name) => `${name}_temp_path ${directory}/${name};`).join(
    " ",
  );
}

/** Returns the text of a shipped configuration. */
export function readConfig({ config }: ProxyProgram): Promise<string> {
  return Deno.readTextFile(
    new URL(`../examples/proxies/${config}`, import.meta.url),
  );
}

/** Where an installed program is; Debian has those of servers in `sbin`, which is not in every PATH. */
export function findProxy({ name }: ProxyProgram): Promise<string | undefined> {
  return findProgram(name, ["/usr/sbin", "/usr/local/sbin"]);
}

/** Defines a test that needs a proxy; without its program, the test is ignored and says why. */
export async function testProxy(
  program: ProxyProgram,
  name: string,
  fn: (path: string, context: Deno.TestContext) => Promise<void>,
): Promise<void> {
  const path = await findProxy(program);
  Deno.test({
    name: path === undefined
      ? `${name} (${program.name} is not installed)`
      : name,
    ignore: path === undefined,
    fn: (context) => fn(path!, context),
  });
}

/** A proxy that runs, with the certificate of the tests. */
export class RunningProxy implements AsyncDisposable {
  /** What stands for port 443. */
  readonly port: number;
  readonly #directory: TempDirectory;
  readonly #child: Deno.ChildProcess;
  readonly #collected: Promise<void>;
  readonly #clients = new AsyncDisposableStack();
  readonly #write: (config: string) => Promise<string>;
  #hasEnded = false;
  /** What it has printed; each program reports here what its checks of the gateway find. */
  output = "";

  private constructor(child: Deno.ChildProcess, { port, directory, write }: {
    port: number;
    directory: TempDirectory;
    write: (config: string) => Promise<string>;
  }) {
    [this.#child, this.port, this.#directory, this.#write] = [
      child,
      port,
      directory,
      write,
    ];
    this.#collected = this.#collect();
  }

  /** Starts a program with a configuration, in which its ports and paths are replaced. */
  static async start(
    program: ProxyProgram,
    path: string,
    config: string,
  ): Promise<RunningProxy> {
    const directory = await TempDirectory.make(await certificates());
    await Deno.chmod(directory.path, 0o755); // nginx's workers have another user, and their cache is in it
    const port = findFreePort();
    const places = { directory: directory.path, port };
    const write = (text: string) =>
      directory.write(
        program.config,
        replaceAll(text, program.replacements(places))
          .replace("/var/cache/rep-polls", `${directory.path}/polls`), // an Ingress has none
      );
    const args = program.args(await write(config), directory.path);
    const env = {
      XDG_DATA_HOME: directory.path,
      XDG_CONFIG_HOME: directory.path,
    };
    const child = new Deno.Command(path, {
      args,
      env,
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const proxy = new RunningProxy(child, { port, directory, write });
    if (await proxy.#listens()) return proxy;
    await proxy[Symbol.asyncDispose]();
    throw new Error(`${program.name} does not listen:\n${proxy.output}`);
  }

  /** Opens a client, which is closed with the proxy. */
  async client(options: Omit<AppClientOptions, "port">): Promise<AppClient> {
    return this.#clients.use(
      await AppClient.open({ ...options, port: this.port }),
    );
  }

  /** Continues with another configuration, as nginx does at SIGHUP. */
  async reload(config: string): Promise<void> {
    await this.#write(config);
    if (!this.#hasEnded) this.#child.kill("SIGHUP");
  }

  /** Waits until the proxy has printed a text: for 30 s at most. */
  async printed(text: string): Promise<void> {
    for (let tries = 0; !this.output.includes(text); tries++) {
      if (this.#hasEnded || tries === 600) {
        throw new Error(`The proxy has not printed "${text}":\n${this.output}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#clients.disposeAsync();
    if (!this.#hasEnded) this.#child.kill("SIGTERM"); // with SIGKILL, nginx's workers would go on
    await this.#collected;
    await this.#child.status;
    await this.#directory[Symbol.asyncDispose]();
  }

  async #collect(): Promise<void> {
    for await (
      const text of this.#child.stderr.pipeThrough(new TextDecoderStream())
    ) this.output += text;
    this.#hasEnded = true;
  }

  /** Waits until the port accepts connections: for 10 s at most, and while the proxy runs. */
  async #listens(): Promise<boolean> {
    for (let tries = 0; tries < 200 && !this.#hasEnded; tries++) {
      try {
        (await Deno.connect({ hostname: "127.0.0.1", port: this.port }))
          .close();
        return true;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
    return false;
  }
}

async function certificates(): Promise<Record<string, string>> {
  const [cert, key] = await Promise.all(
    ["localhost.crt", "localhost.key"].map((name) =>
      Deno.readTextFile(new URL(name, TLS))
    ),
  );
  return {
    "gateway.crt": cert!,
    "gateway.key": key!,
    "gateway.pem": `${cert}${key}`,
  };
}

/** Replaces the gateway's ports in a configuration: every address and every port of a check. */
export function atPorts(
  config: string,
  ports: ReadonlyMap<number, number>,
): string {
  return config.replace(
    /(127\.0\.0\.[12]:|check port |health_port )(\d+)/g,
    (_, before, port) => `${before}${ports.get(Number(port)) ?? CLOSED_PORT}`,
  );
}

/** Nothing listens here: port 1 (tcpmux) is privileged and out of use. */
const CLOSED_PORT = 1;
