import type { Load, LoadOptions } from "./_load_generator.ts";

/** Both cores of a small machine; more threads do not make `wrk` faster there. */
const THREADS = 2;

/**
 * Runs `wrk` (https://github.com/wg/wrk), for whole seconds.
 *
 * @throws {Error} If it fails, or a connection does.
 */
export async function wrkLoad(program: string, options: LoadOptions): Promise<Load> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: wrkArgs(options) }).output();
  const text = new TextDecoder().decode(stdout);
  const [, perSecond] = /^Requests\/sec:\s+([\d.]+)$/m.exec(text) ?? [];
  const [errors] = /Socket errors: connect (?!0, read 0, write 0).*/.exec(text) ?? [];
  if (!success || perSecond === undefined || errors !== undefined) {
    const got = errors ?? (text + new TextDecoder().decode(stderr)).trim();
    throw new Error(`Cannot measure ${options.path}: expected wrk to succeed, got ${JSON.stringify(got)}`);
  }
  const [, requests] = /^\s*(\d+) requests in/m.exec(text) ?? [];
  const [, failed = "0"] = /Non-2xx or 3xx responses: (\d+)/.exec(text) ?? [];
  return { perSecond: Number(perSecond), requests: Number(requests), failed: Number(failed) };
}

function wrkArgs({ port, path, connections, seconds, firstClient }: LoadOptions): string[] {
  const url = `http://127.0.0.1:${port}${path}`;
  const threads = Math.min(THREADS, connections);
  const load = ["-t", String(threads), "-c", String(connections), "-d", `${Math.ceil(seconds)}s`];
  if (firstClient === undefined) return [...load, url];
  const script = new URL("_distinct_clients.lua", import.meta.url).pathname;
  return [...load, "-s", script, url, "--", String(firstClient)];
}
