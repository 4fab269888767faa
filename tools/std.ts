/**
 * Prints the flags with which `deno` finds the `@std` packages on this network: none where JSR answers, and an import map
 * that takes the same modules from npm where it does not. Used by the tasks: `deno run $(deno run -A tools/std.ts) …`
 */

/** JSR answers in well under a second; a network that drops packets must not hold every task up for longer. */
const TIMEOUT_MS = 3_000;

/** The flags, as arguments. */
export async function stdFlags(): Promise<string[]> {
  return await jsrAnswers() ? [] : ["--import-map=tools/std_without_jsr.json"];
}

async function jsrAnswers(): Promise<boolean> {
  const registry = Deno.env.get("JSR_URL") ?? "https://jsr.io/";
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(new URL("@std/assert/meta.json", registry), { signal });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // no name, no route, no answer: whichever it is, npm is the way
  }
}

if (import.meta.main) await Deno.stdout.write(new TextEncoder().encode((await stdFlags()).join(" ")));
