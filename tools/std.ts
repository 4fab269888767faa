/**
 * Prints the flags that `deno` needs to find the `@std` packages on this network: none if JSR is reachable, otherwise an
 * import map to the same modules on npm. The tasks use it: `deno run $(deno run -A tools/std.ts) …`
 */

/** JSR responds in well under a second; a network that drops packets must not delay every task for longer. */
const TIMEOUT_MS = 3_000;

/** Returns the flags, one argument each. */
export async function stdFlags(): Promise<string[]> {
  return await isJsrReachable() ? [] : ["--import-map=tools/std_without_jsr.json"];
}

async function isJsrReachable(): Promise<boolean> {
  const registry = Deno.env.get("JSR_URL") ?? "https://jsr.io/";
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(new URL("@std/assert/meta.json", registry), { signal });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // DNS, connection or timeout: in any case, npm is the alternative
  }
}

if (import.meta.main) await Deno.stdout.write(new TextEncoder().encode((await stdFlags()).join(" ")));
