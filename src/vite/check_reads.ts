import { relative, resolve } from "node:path";
import { didYouMean } from "../core/values/did_you_mean.ts";
import { type DeclaredVariable, readDeclared } from "./declared_variables.ts";
import { envNameOf, envPrefixes, remedyFor } from "./env_names.ts";
import { isVitest } from "./vitest.ts";
import type { RepOptions } from "./project_files.ts";
import type { ViteConfig } from "./vite.ts";

/**
 * Returns the plugin that compares the reads of `import.meta.env` with the manifest and with Vite's own values. It changes
 * nothing.
 *
 * @param found To which it adds the names in modules with `import.meta.env`, also those that are read from a copy of this
 * object.
 */
export function checkReads(options: RepOptions, found: Set<string>) {
  const { manifest: manifestPath, env: isLive = false } = options;
  let config: ViteConfig;

  /**
   * Returns what is wrong with a read; `undefined` if it is what the manifest says.
   *
   * @param declared The variables of the manifest, by their names in `import.meta.env`.
   */
  function problemOf(
    envName: string,
    declared: ReadonlyMap<string, DeclaredVariable>,
  ): string | undefined {
    const variable = declared.get(envName);
    const defined = Object.keys(config.define ?? {})
      .map((key) => key.replace("import.meta.env.", ""));
    const own = [...Object.keys(config.env), ...defined];
    const isOwn = own.includes(envName);
    if (variable === undefined) {
      if (isOwn) return undefined;
      const hint = didYouMean(envName, [...declared.keys(), ...own]);
      return `is undefined: neither the manifest nor Vite declares it${hint}`;
    }
    if (variable.tier !== "public") return describeSecret(variable, isOwn);
    if (isLive) {
      if (!config.isWorker) return undefined;
      return "is undefined in workers: expected the page to send the value";
    }
    if (isOwn) return undefined;
    return `is undefined: expected env: true in rep(), or get("${variable.name}")`;
  }

  return {
    name: "rep:reads",
    /** Before the other plugins: it needs the lines of the source, and the reads before a build replaces them. */
    enforce: "pre",
    /** Adds a plugin of this kind to the builds of workers, which Vite configures separately. */
    config() {
      const plugins = (): object[] => [checkReads(options, found)];
      return { worker: { plugins } };
    },
    configResolved(resolved: ViteConfig) {
      config = resolved;
    },
    async transform(code: string, id: string) {
      if (!code.includes("import.meta")) return;
      if (!isSource(id) || isVitest(config)) return;
      const prefixes = envPrefixes(config);
      const hasPrefix = (name: string) =>
        prefixes.some((prefix) => name.startsWith(prefix));
      const words = code.match(/\b\w+/g) ?? [];
      words.filter(hasPrefix).forEach((name) => found.add(name));
      const reads = findReads(code).filter(({ name }) => hasPrefix(name));
      if (reads.length === 0 || manifestPath === undefined) return;
      const variables = await readDeclared(resolve(config.root, manifestPath))
        .catch(() => undefined); // others report its mistakes
      if (variables === undefined) return;
      const entries = variables.map((variable) =>
        [envNameOf(variable.name, prefixes), variable] as const
      );
      const declared = new Map(entries);
      const file = relative(config.root, id.replace(/\?.*$/s, ""));
      for (const { name, line } of reads) {
        const problem = problemOf(name, declared);
        const text =
          `[rep] ${file}:${line}: import.meta.env.${name} ${problem}`;
        if (problem === undefined) continue;
        // Once, although a module may be transformed for pages, workers and the server.
        config.logger.warnOnce(text, { timestamp: true });
      }
    },
  };
}

/** Describes the read of a SENSITIVE or SERVER variable. @param isOwn Whether Vite has a value for it as well. */
function describeSecret(variable: DeclaredVariable, isOwn: boolean): string {
  const { name, tier } = variable;
  const consequence = isOwn
    ? "is Vite's own value, which everyone can read"
    : "is undefined";
  const remedy = remedyFor(variable);
  return `${consequence}, and ${name} is ${tier.toUpperCase()}: ${remedy}`;
}

/** Returns whether a module is a file of the project, and not a part of one, whose lines have other numbers. */
function isSource(id: string): boolean {
  const isPart = /\0|\?(?!worker_file)/.test(id);
  return !isPart && !id.includes("/node_modules/");
}

/** What TypeScript allows after an expression: `!`, or `as T)`. Vite sees the read without it. */
const CAST = /(?:!|\s+as\s[^()]*\))?/.source;
const ENV = `\\bimport\\.meta${CAST}\\.env\\b${CAST}`;

/** A read by name, or text in which there is none. Templates are searched: code in them may read. */
const READ = new RegExp(
  [
    /\/\*[^]*?\*\/|<!--[^]*?-->/, // comments
    /(?<![:`"'])\/\/.*/, // a comment, and not a URL
    /"(?:\\.|[^"\\\n{])*"|'(?:\\.|[^'\\\n{])*'/, // a string without braces, which in Svelte contain code
    new RegExp(`${ENV}\\s*(?:\\?\\.|\\.)\\s*(?<dotted>\\w+)`),
    new RegExp(
      `${ENV}\\s*(?:\\?\\.)?\\[\\s*(?<quote>["'\`])(?<quoted>\\w+)\\k<quote>\\s*\\]`,
    ),
    new RegExp(
      `\\{(?<destructured>[^{}]*)\\}\\s*=\\s*\\(?${ENV}(?!\\s*[?.[])`,
    ),
  ].map(({ source }) => source).join("|"),
  "g",
);

/** A read of `import.meta.env`. */
interface Read {
  readonly name: string;
  /** The line, beginning with 1. */
  readonly line: number;
}

/**
 * Returns the reads by name in a source, which may be of any language that contains JavaScript. No parser knows all of
 * them, so a rare read may be missed, such as one between two apostrophes on a line of JSX.
 */
function findReads(code: string): Read[] {
  const reads: Read[] = [];
  for (const { index, groups = {} } of code.matchAll(READ)) {
    const { dotted, quoted, destructured } = groups;
    const name = dotted ?? quoted;
    if (name !== undefined) reads.push({ name, line: lineAt(code, index) });
    if (destructured === undefined) continue;
    for (const key of destructured.matchAll(/(?:^|,)\s*(\w+)/g)) {
      const end = index + 1 + key.index + key[0].length;
      reads.push({ name: key[1] ?? "", line: lineAt(code, end) });
    }
  }
  return reads;
}

function lineAt(code: string, index: number): number {
  return code.slice(0, index).split("\n").length;
}
