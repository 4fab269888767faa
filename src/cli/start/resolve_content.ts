import type { CommandOptions } from "../options/option_table.ts";
import { UsageError } from "../options/read_options.ts";

/** The options that decide what is served. */
export type ContentSelection = Pick<CommandOptions, "mode" | "static-dir" | "upstream">;

/** What is served besides the endpoints: a directory, an upstream, or neither. */
interface ServedContent {
  readonly staticDir: string | undefined;
  readonly upstream: URL | undefined;
}

/** Defaults of the two modes (REP-RFC-0001 §7.1). */
const DEFAULT_STATIC_DIR = "/usr/share/nginx/html";
const DEFAULT_UPSTREAM = "http://localhost:80/";

/**
 * Resolves what is served: `--mode` selects it and has a default for each; without `--mode`, `--static-dir` or
 * `--upstream` is served, whichever is set.
 *
 * @throws {UsageError} If both are set and `--mode` is not.
 */
export function resolveContent({ mode, "static-dir": staticDir, upstream }: ContentSelection): ServedContent {
  if (mode === "embedded") return { staticDir: staticDir ?? DEFAULT_STATIC_DIR, upstream: undefined };
  if (mode === "proxy") return { staticDir: undefined, upstream: upstream ?? new URL(DEFAULT_UPSTREAM) };
  if (staticDir !== undefined && upstream !== undefined) {
    throw new UsageError(
      "Cannot serve both --static-dir and --upstream: expected one of them, or --mode to select one",
    );
  }
  return { staticDir, upstream };
}
