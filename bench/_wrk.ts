import type { Load, LoadOptions } from "./_load_generator.ts";

/** Both cores of a small machine; more threads do not make `wrk` faster there. */
const THREADS = 2;

/**
 * Runs `wrk` (https://github.com/wg/wrk), for whole seconds.
 *
 * @throws {Error} If it fails, or a connection does.
 */
export async function wrkLoad(
  program: string,
  options: LoadOptions,
): Promise<Load> {
  const { stdout, stderr } = await new Deno.Command(program, {
    args: wrkArgs(options),
  }).output();
  const decoder = new TextDecoder();
  const text = decoder.decode(stdout);
  const load = parseWrk(text);
  if (load !== undefined) return load;
  const got = JSON.stringify((text + decoder.decode(stderr)).trim());
  throw new Error(
    `Cannot load ${options.path} with wrk: expected no socket errors, got ${got}`,
  );
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

function wrkArgs(
  { port, path, connections, seconds, firstClient }: LoadOptions,
): string[] {
  const url = `http://127.0.0.1:${port}${path}`;
  const threads = Math.min(THREADS, connections);
  const load = [
    "-t",
    String(threads),
    "-c",
    String(connections),
    "-d",
    `${Math.ceil(seconds)}s`,
  ];
  if (firstClient === undefined) return [...load, url];
  const script = new URL("_distinct_clients.lua", import.meta.url).pathname;
  return [...load, "-s", script, url, "--", String(firstClient)];
}
