import { findProgram } from "../tools/find_program.ts";

/** A load of HTTP requests. */
export interface LoadOptions {
  readonly url: string;
  /** Connections that each have one request in flight. */
  readonly connections: number;
  readonly seconds: number;
  /** If set, each request comes from another client, as `X-Forwarded-For` says, counted from this one. */
  readonly firstClient?: number | undefined;
  /** If set, the requests are for so many URLs: a number follows the path. */
  readonly urls?: number | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The result of a load. */
export interface Load {
  readonly perSecond: number;
  readonly requests: number;
  /** Responses whose status is not 2xx or 3xx. */
  readonly failed: number;
}

/**
 * Runs a load to its end, with `wrk` (https://github.com/wg/wrk). Without `wrk`, or for less than a second, it uses a
 * client in this process, which is several times slower.
 */
export async function load(options: LoadOptions): Promise<Load> {
  const wrk = await findProgram("wrk");
  if (wrk === undefined || options.seconds < 1) return await fetchLoad(options);
  return await wrkLoad(wrk, options);
}

async function wrkLoad(wrk: string, options: LoadOptions): Promise<Load> {
  const { url, connections, seconds, firstClient, urls, headers = {} } =
    options;
  const args = ["-t2", `-c${connections}`, `-d${Math.ceil(seconds)}s`, url];
  for (const [name, value] of Object.entries(headers)) {
    args.unshift("-H", `${name}: ${value}`);
  }
  if (firstClient !== undefined) {
    args.unshift("-s", "bench/_distinct_clients.lua");
    args.push("--", String(firstClient));
  }
  if (urls !== undefined) {
    args.unshift("-s", "bench/_many_urls.lua");
    args.push("--", String(urls));
  }
  const cwd = new URL("..", import.meta.url);
  const output = await new Deno.Command(wrk, { args, cwd }).output();
  const text = new TextDecoder().decode(output.stdout);
  const result = parseWrk(text);
  if (result === undefined) {
    throw new Error(
      `Cannot load ${url} with wrk: expected no socket errors, got ${text}`,
    );
  }
  return result;
}

/**
 * Parses the output of `wrk`. Slow responses are not errors: it counts them as timeouts.
 *
 * @returns `undefined` if it is not that of a load without socket errors.
 */
export function parseWrk(text: string): Load | undefined {
  const [, requests] = /^\s*(\d+) requests in/m.exec(text) ?? [];
  const [, perSecond] = /^Requests\/sec:\s+([\d.]+)$/m.exec(text) ?? [];
  const [, failed = "0"] = /Non-2xx or 3xx responses: (\d+)/.exec(text) ?? [];
  if (requests === undefined || perSecond === undefined) return undefined;
  if (/Socket errors: connect (?!0, read 0, write 0)/.test(text)) {
    return undefined;
  }
  return {
    perSecond: Number(perSecond),
    requests: Number(requests),
    failed: Number(failed),
  };
}

async function fetchLoad(options: LoadOptions): Promise<Load> {
  const { url, connections, seconds, firstClient, urls } = options;
  const startedAt = performance.now();
  const passedS = () => (performance.now() - startedAt) / 1_000;
  let requests = 0;
  let failed = 0;
  async function send(): Promise<void> {
    do {
      const headers = new Headers(options.headers);
      if (firstClient !== undefined) {
        headers.set("x-forwarded-for", clientAddress(firstClient + requests));
      }
      requests++;
      const path = urls === undefined ? "" : requests % urls;
      const response = await fetch(`${url}${path}`, { headers });
      await response.bytes();
      if (response.status >= 400) failed++;
    } while (passedS() < seconds);
  }
  await Promise.all(Array.from({ length: connections }, send));
  return { perSecond: requests / passedS(), requests, failed };
}

/** Returns the address of a client by its number: those of 10.0.0.0/8 are private (RFC 6890). */
export function clientAddress(client: number): string {
  return `10.${client >> 16 & 255}.${client >> 8 & 255}.${client & 255}`;
}
