import type { Metrics } from "../observe/metrics.ts";
import type {
  ConfigScriptCache,
  ConfigScriptCacheOptions,
  GetConfigScript,
} from "./config_script.ts";

/** Returns the function that gets the script of a page. A gateway without pages does not load what it needs. */
export function configScripts(
  options: ConfigScriptCacheOptions,
  metrics: Metrics,
): GetConfigScript {
  async function open(): Promise<ConfigScriptCache> {
    const { ConfigScriptCache } = await import("./config_script.ts");
    return new ConfigScriptCache(options);
  }

  let opening: Promise<ConfigScriptCache> | undefined;
  return async () => {
    metrics.count("rep.pages.served", 1);
    const cache = await (opening ??= open());
    return await cache.get();
  };
}
