import type { VisibleClause } from "./clauses.ts";
import type { Launcher, Setup } from "./launcher.ts";

/** What a gateway is asked about one clause. */
export interface Check {
  readonly id: VisibleClause;
  /** Throws a `Nonconformance` that says what was expected, and what was there. */
  readonly run: (launcher: Launcher) => Promise<void>;
}

/** A value that would end the element, or the attribute of one, if it were written as it is. */
const MARKUP = `</script><b a="1">&amp; ü 'x'`;

/** The PUBLIC variables of {@linkcode STANDARD} by the names that pages know. */
export const PUBLIC = {
  API_URL: "https://api.example.com",
  EMPTY: "",
  GONE: "here",
  LIVE: "first",
  MARKUP,
} as const;
/** Its SENSITIVE variables. */
export const SENSITIVE = {
  TOKEN: "sensitive-4711",
  OTHER: "sensitive-0815",
} as const;
/** Its SERVER variables. */
export const SERVER = {
  PASSWORD: "server-1234",
  SECOND: "server-5678",
  THIRD: "server-9012",
} as const;
/** What is in its environment besides, and in no tier. */
export const IGNORED = {
  REP_OTHER_NAME: "no-tier-55",
  PLAIN_NAME: "no-prefix-66",
  MY_REP_PUBLIC_NAME: "no-prefix-77",
} as const;
/** Its env file: `API_URL` is set in the environment, too. */
export const ENV_FILE =
  "REP_PUBLIC_API_URL=https://file.example.com\nREP_PUBLIC_LIVE=first\nREP_PUBLIC_GONE=here\n";

/** What most checks ask: variables of each tier, with hot reload. */
export const STANDARD: Setup = {
  variables: {
    ...IGNORED,
    REP_PUBLIC_API_URL: PUBLIC.API_URL,
    REP_PUBLIC_EMPTY: PUBLIC.EMPTY,
    REP_PUBLIC_MARKUP: PUBLIC.MARKUP,
    ...withPrefix("REP_SENSITIVE_", SENSITIVE),
    ...withPrefix("REP_SERVER_", SERVER),
  },
  envFile: ENV_FILE,
  options: { "hot-reload": "true", "log-format": "json" },
  site: {
    "index.html":
      "<!doctype html><html><head><title>App</title></head><body></body></html>",
    "app.js": `export const values = [\n${
      "  'a line of a bundle that compresses well',\n".repeat(500)
    }];\n`,
  },
};

function withPrefix(
  prefix: string,
  variables: Readonly<Record<string, string>>,
): Record<string, string> {
  return Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [prefix + name, value]),
  );
}

/** What a gateway does otherwise than a clause asks. */
export class Nonconformance extends Error {
  /** The name of the class. */
  override name = "Nonconformance";
}

/** @throws {Nonconformance} If the condition is false. */
export function expect(
  condition: boolean,
  otherwise: string,
): asserts condition {
  if (!condition) throw new Nonconformance(otherwise);
}

/** Compares what JSON can express. */
export function expectEqual(
  what: string,
  actual: unknown,
  expected: unknown,
): void {
  const [is, shouldBe] = [JSON.stringify(actual), JSON.stringify(expected)];
  expect(is === shouldBe, `${what}: expected ${shouldBe}, got ${is}`);
}
