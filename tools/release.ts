/**
 * The steps of a release; CONTRIBUTING.md says when to run which:
 *
 *     deno run -A tools/release.ts prepare 1.2.3    # writes the version into every file that names it
 *     deno run -A tools/release.ts check v1.2.3     # checks that they all name it
 *     deno run -A tools/release.ts notes v1.2.3     # prints the section of CHANGELOG.md
 *     deno run -A tools/release.ts stamp COMMIT     # writes the commit into the version of what is built next
 *     deno run -A tools/release.ts binaries DIR     # compiles one binary per platform
 */
import { stdFlags } from "./std.ts";

/** The files that name the version of the module. */
export const VERSIONED_FILES = [
  "README.md",
  "deno.json",
  "docs/deploy.md",
  "docs/openapi.yaml",
  "docs/variables.md",
  "examples/docker/Dockerfile",
  "examples/docker/Dockerfile.node",
  "examples/systemd/rep-gateway.service",
  "examples/vite-react/package.json",
  "examples/vite-vue/package.json",
  "src/version.ts",
] as const;
const CHANGELOG = "CHANGELOG.md";
const VERSION_CONSTANT = "src/version.ts";
/** As in `src/command/program_version.ts`. */
const COMMIT_DIGITS = 8;

/** The platforms of `deno compile --target` for which a release has a binary. */
export const TARGETS = [
  "x86_64-unknown-linux-gnu",
  "aarch64-unknown-linux-gnu",
  "x86_64-apple-darwin",
  "aarch64-apple-darwin",
  "x86_64-pc-windows-msvc",
] as const;

/**
 * The packages that the gateway imports only where they are needed, so that `deno compile` does not find them: the
 * driver of PostgreSQL, the API of OpenTelemetry, and what evaluates the patterns of a manifest.
 */
export const LAZY_PACKAGES = [
  "npm:pg@8.23.1",
  "npm:@opentelemetry/api@1.10.0",
  "npm:re2js@2.10.0",
] as const;

const VERSION = /^\d+\.\d+\.\d+$/;
/**
 * In `jsr:` and `https://jsr.io/` addresses, `npm install`, deno.json, docs/openapi.yaml, the constant of the sources,
 * `package.json` files, and the health report in README.md.
 */
const NAMED_VERSION =
  /(jsr(?::|\.io\/)@rep\/gateway[@/]|npm install .*@rep\/gateway@|^ {2}"version": "|^ {2}version: |"healthy","version":"|^export const VERSION = "|"@rep\/gateway": ")\d+\.\d+\.\d+/gm;

/** Returns a text in which the module has this version wherever one is named. */
export function withVersion(text: string, version: string): string {
  return text.replace(NAMED_VERSION, `$1${version}`);
}

/** Returns the text of the constant with a commit: `0.1.0+1a2b3c4d`; the same text if there is no commit. */
export function withCommit(text: string, commit: string): string {
  if (commit === "") return text; // a build outside of a repository
  const build = `+${commit.slice(0, COMMIT_DIGITS)}`;
  return text.replace(/(VERSION = "\d+\.\d+\.\d+)"/, `$1${build}"`);
}

/**
 * Returns the changelog in which the unreleased changes are those of a version.
 *
 * @param date The day, as `2026-01-31`.
 */
function withRelease(
  changelog: string,
  version: string,
  date: string,
): string {
  return changelog.replace(
    "## [Unreleased]\n",
    `## [Unreleased]\n\n## [${version}] - ${date}\n`,
  );
}

/** Returns what the changelog says about a version; `undefined` if it does not mention it. */
function releaseNotes(
  changelog: string,
  version: string,
): string | undefined {
  const sections = changelog.split(/^## /m);
  const section = sections.find((text) => text.startsWith(`[${version}] - `));
  return section?.slice(section.indexOf("\n")).trim();
}

/** Returns the arguments of `deno` that compile the binary for a platform. @param flags See `tools/std.ts`. */
export function compileArgs(
  target: string,
  folder: string,
  flags: readonly string[],
): string[] {
  const permissions = [
    "--no-prompt",
    "--allow-net",
    "--allow-env",
    "--allow-read",
    "--allow-write",
  ];
  const included = LAZY_PACKAGES.map((name) => `--include=${name}`);
  const output = `${folder}/rep-gateway-${target}`; // for Windows, Deno adds `.exe`
  const options = [
    ...permissions,
    "--allow-sys=hostname",
    "--unstable-kv",
    "--app-name=rep-gateway",
    ...included,
  ];
  return [
    "compile",
    ...flags,
    ...options,
    `--target=${target}`,
    `--output=${output}`,
    "main.ts",
  ];
}

/** Returns what has to be fixed before a tag can be released. */
async function releaseProblems(tag: string): Promise<string[]> {
  const version = tag.replace(/^v/, "");
  if (!VERSION.test(version)) {
    return [`Cannot release ${tag}: expected a tag such as v1.2.3`];
  }
  const texts = await Promise.all(
    VERSIONED_FILES.map((path) => Deno.readTextFile(path)),
  );
  const stale = VERSIONED_FILES.filter((_, index) =>
    texts[index] !== withVersion(texts[index] ?? "", version)
  );
  const hasNotes =
    releaseNotes(await Deno.readTextFile(CHANGELOG), version) !== undefined;
  return [
    ...stale.map((path) =>
      `Cannot release ${tag}: ${path} names another version`
    ),
    ...(hasNotes
      ? []
      : [`Cannot release ${tag}: ${CHANGELOG} has no section [${version}]`]),
  ];
}

async function prepare(version: string): Promise<void> {
  if (!VERSION.test(version)) {
    throw new TypeError(
      `Cannot prepare "${version}": expected a version such as 1.2.3`,
    );
  }
  for (const path of VERSIONED_FILES) {
    await Deno.writeTextFile(
      path,
      withVersion(await Deno.readTextFile(path), version),
    );
  }
  const date = new Date().toISOString().slice(0, "2026-01-31".length);
  await Deno.writeTextFile(
    CHANGELOG,
    withRelease(await Deno.readTextFile(CHANGELOG), version, date),
  );
}

async function stamp(commit: string): Promise<void> {
  const text = await Deno.readTextFile(VERSION_CONSTANT);
  await Deno.writeTextFile(VERSION_CONSTANT, withCommit(text, commit));
}

async function compileAll(folder: string): Promise<void> {
  const flags = await stdFlags();
  for (const target of TARGETS) {
    const { success } = await new Deno.Command(Deno.execPath(), {
      args: compileArgs(target, folder, flags),
    }).spawn()
      .status;
    if (!success) throw new Error(`Cannot compile for ${target}`);
  }
}

async function check(tag: string): Promise<void> {
  const problems = await releaseProblems(tag);
  if (problems.length > 0) throw new Error(problems.join("\n"));
}

async function printNotes(tag: string): Promise<void> {
  const notes = releaseNotes(
    await Deno.readTextFile(CHANGELOG),
    tag.replace(/^v/, ""),
  );
  if (notes === undefined) {
    throw new Error(
      `Cannot print the notes of ${tag}: expected a section in ${CHANGELOG}`,
    );
  }
  await Deno.stdout.write(new TextEncoder().encode(`${notes}\n`));
}

const STEPS: Readonly<Record<string, (argument: string) => Promise<void>>> = {
  prepare,
  check,
  notes: printNotes,
  stamp,
  binaries: compileAll,
};

if (import.meta.main) {
  const [name = "", argument = ""] = Deno.args;
  const step = STEPS[name];
  if (step === undefined) {
    throw new TypeError(
      `Cannot run "${name}": expected one of ${Object.keys(STEPS).join(", ")}`,
    );
  }
  await step(argument);
}
