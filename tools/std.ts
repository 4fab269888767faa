/**
 * Prints the flags that `deno` needs to find the `@std` packages on this network: none if JSR is reachable, otherwise
 * an import map to the same modules on npm. The tasks use it: `deno run $(deno run -A tools/std.ts) …`
 *
 * With `--config` it prints a `deno.json` instead that needs no such flags, for the Dockerfile. With `--no-config` it
 * prints flags with which `deno` treats the checkout as a package from a registry, to which `deno.json` does not apply.
 */
import config from "../deno.json" with { type: "json" };

const IMPORT_MAP = "tools/std_without_jsr.json";

/** A URL, so that the flags are right in every folder, and contain no space. */
const IMPORT_MAP_FLAG = `--import-map=${new URL(
  `../${IMPORT_MAP}`,
  import.meta.url,
)}`;

/** JSR responds in well under a second; a network that drops packets must not delay every task for longer. */
const TIMEOUT_MS = 3_000;

/** Returns the flags, one argument each. */
export async function stdFlags(): Promise<string[]> {
  return await isJsrReachable() ? [] : [IMPORT_MAP_FLAG];
}

/** Returns the flags with which neither the unstable features nor the compiler options of `deno.json` apply. */
export async function registryFlags(): Promise<string[]> {
  const map = await isJsrReachable()
    ? `--import-map=data:application/json,${encodeURIComponent(jsrImportMap())}`
    : IMPORT_MAP_FLAG;
  return ["--no-config", "--no-lock", map];
}

/** Import maps have no subpaths of packages, unlike `imports` of `deno.json`. */
function jsrImportMap(): string {
  const packages = Object.entries(config.imports);
  const subpaths = packages.map((
    [name, path],
  ) => [`${name}/`, `${path.replace("jsr:", "jsr:/")}/`]);
  return JSON.stringify({
    imports: Object.fromEntries([...packages, ...subpaths]),
  });
}

/** Returns the text of a `deno.json` with which `deno` finds the packages without further flags. */
export async function stdConfig(): Promise<string> {
  const { imports, scopes, ...others } = config;
  const packages = await isJsrReachable()
    ? { imports, scopes }
    : { importMap: IMPORT_MAP };
  return `${JSON.stringify({ ...others, ...packages }, null, 2)}\n`;
}

async function isJsrReachable(): Promise<boolean> {
  const registry = Deno.env.get("JSR_URL") ?? "https://jsr.io/";
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(new URL("@std/assert/meta.json", registry), {
      signal,
    });
    await response.body?.cancel();
    return response.ok;
  } catch {
    return false; // DNS, connection or timeout: in any case, npm is the alternative
  }
}

if (import.meta.main) {
  const flags = Deno.args.includes("--no-config") ? registryFlags : stdFlags;
  const text = Deno.args.includes("--config")
    ? await stdConfig()
    : (await flags()).join(" ");
  await Deno.stdout.write(new TextEncoder().encode(text));
}
