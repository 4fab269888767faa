/**
 * A plugin for Vite. With it, Vite's development server and preview server serve pages with the configuration, and the
 * endpoints of the gateway, without another process.
 *
 * ```ts ignore
 * import { rep } from "@rep/gateway/vite";
 * import { defineConfig } from "vite";
 *
 * export default defineConfig({ plugins: [rep({ manifest: ".rep.yaml", envFile: "app.env" })] });
 * ```
 *
 * @module
 */
import { requireRuntime } from "../core/values/runtime.ts";
import { checkReads } from "./check_reads.ts";
import { gatewayPlugin } from "./gateway_plugin.ts";
import { lostChunks } from "./lost_chunks.ts";
import { checkOptionNames, type RepOptions } from "./project_files.ts";
import { runtimeEnv } from "./runtime_env.ts";

export type { RepEnvFile } from "./env_files.ts";
export type { RepOptions } from "./project_files.ts";

/** A plugin for Vite. Only Vite calls its hooks. */
export interface RepPlugin {
  /** The name, for Vite's messages. */
  readonly name: string;
}

/**
 * Returns a list, which Vite accepts in place of a plugin: the plugin, one that warns of reads of `import.meta.env`
 * without a value and lets pages of a build reload when a lazy chunk is gone, and with `env: true` one that gives variables
 * values.
 *
 * @throws {Error} If Node.js is too old.
 * @throws {TypeError} If an option does not exist.
 */
export function rep(options: RepOptions = {}): RepPlugin[] {
  requireRuntime();
  checkOptionNames(options);
  const names = new Set<string>();
  const reads = { ...checkReads(options, names), ...lostChunks() };
  if (!options.env) return [gatewayPlugin(options), reads];
  const live = runtimeEnv(options);
  const onValid = live.api.restartIfOutdated;
  return [gatewayPlugin(options, { names, onValid }), reads, live];
}

// With `plugins: [rep]`, without the call, Vite would take the function for a plugin that does nothing.
Object.defineProperty(rep, "config", {
  value() {
    throw new TypeError(
      "Cannot use the plugin rep: expected rep() in plugins, got the function",
    );
  },
});
