/**
 * Asks any gateway what can be asked from outside: `deno task conformance -- --url http://127.0.0.1:8080 -- gateway`.
 * `docs/conformance.md` says how.
 */
import { parseArgs } from "@std/cli/parse-args";
import { ask, CHECKS, type Finding } from "./checks.ts";
import type { Target } from "./launcher.ts";

/** What is asked of whom. */
interface Request {
  readonly target: Target;
  readonly checks: typeof CHECKS;
}

const USAGE =
  "expected --url http://127.0.0.1:PORT [--health-url URL] [--only ID,…] -- COMMAND …";

/** @throws {TypeError} If something is missing, or no check has one of the ids. */
function readRequest(args: readonly string[]): Request {
  const own = args[0] === "--" ? args.slice(1) : args; // deno task passes it on
  const flags = parseArgs([...own], {
    "--": true,
    string: ["url", "health-url", "only"],
  });
  const { url, only, "--": command = [], "health-url": healthUrl } = flags;
  if (!url || command.length === 0) {
    throw new TypeError(`Cannot ask a gateway: ${USAGE}, got ${own.join(" ")}`);
  }
  const ids = only?.split(",");
  const checks = CHECKS.filter(({ id }) => ids?.includes(id) ?? true);
  if (ids && checks.length < ids.length) {
    throw new TypeError(
      `Cannot read --only: expected ids of checks, got ${only}`,
    );
  }
  return {
    target: {
      command,
      url: originOf(url),
      healthUrl: healthUrl && originOf(healthUrl),
    },
    checks,
  };
}

function originOf(url: string): string {
  return new URL(url).origin;
}

/** Returns the lines about a finding. */
export function format({ id, name, problem }: Finding): string {
  return `${problem === undefined ? "pass" : "FAIL"}  ${
    id.padEnd(14)
  }${name}\n${problem ? `      ${problem}\n` : ""}`;
}

async function print(text: string): Promise<void> {
  await Deno.stdout.write(new TextEncoder().encode(text));
}

if (import.meta.main) {
  const { target, checks } = readRequest(Deno.args);
  let passed = 0;
  for await (const finding of ask(target, checks)) {
    await print(format(finding));
    if (finding.problem === undefined) passed++;
  }
  await print(`${passed} of ${checks.length} pass\n`);
  Deno.exit(passed === checks.length ? 0 : 1);
}
