import type { Settings } from "./option_table.ts";
import { UsageError } from "./read_options.ts";

/** What is to be served beside the endpoints. */
export interface ContentSettings {
  readonly staticDir?: string;
  readonly upstream?: URL;
}

/** Where the modes find what they serve when nobody says it (REP-RFC-0001 §7.1). */
const DEFAULT_STATIC_DIR = "/usr/share/nginx/html";
const DEFAULT_UPSTREAM = "http://localhost:80/";

/**
 * Decides what is served, in REP's words: `--mode` chooses, and has defaults of its own; without it, whichever of `--static-dir`
 * and `--upstream` is set.
 *
 * @throws {UsageError} If that does not decide it.
 */
export function resolveContent(settings: Pick<Settings, "mode" | "static-dir" | "upstream">): ContentSettings {
  const { mode, "static-dir": staticDir, upstream } = settings;
  if (mode === "embedded") return { staticDir: staticDir ?? DEFAULT_STATIC_DIR };
  if (mode === "proxy") return { upstream: upstream ?? new URL(DEFAULT_UPSTREAM) };
  if (staticDir !== undefined && upstream !== undefined) {
    throw new UsageError("Cannot serve --static-dir and --upstream at once: expected one of them, or --mode to choose");
  }
  return { ...(staticDir === undefined ? {} : { staticDir }), ...(upstream === undefined ? {} : { upstream }) };
}
