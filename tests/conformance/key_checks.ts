import { decodeBase64 } from "@std/encoding/base64";
import {
  type Check,
  expect,
  expectEqual,
  PUBLIC,
  SENSITIVE,
  SERVER,
  STANDARD,
} from "./check.ts";
import type { Launcher, Setup } from "./launcher.ts";

const PATH = "/rep/session-key";
const ALLOWED = "https://app.example";
const FOREIGN = "https://elsewhere.example";
const VARIABLES = { REP_SENSITIVE_TOKEN: "secret" };
const ORIGINS: Setup = {
  variables: VARIABLES,
  options: { "allowed-origins": ALLOWED },
};
/** §4.4, in milliseconds. */
const MAX_TTL_MS = 30_000;
/** The clock of this process need not be the gateway's to the second. */
const TOLERANCE_MS = 1_000;
/** §4.4, a minute and client. */
const MAX_KEYS = 10;

/** §4.4, §4.5 and what the security model says of keys. */
export const KEY_CHECKS: readonly Check[] = [
  { id: "4.4-key", run: checkKey },
  {
    id: "4.4-store",
    async run(launcher) {
      const { headers } = await (await launcher.start(STANDARD)).ask(PATH);
      const directives = (headers.get("cache-control") ?? "").split(/, */);
      const missing = ["no-store", "no-cache", "must-revalidate"].filter((
        one,
      ) => !directives.includes(one));
      expect(
        missing.length === 0,
        `expected ${missing.join(", ")} in Cache-Control`,
      );
    },
  },
  {
    id: "4.4-audit",
    async run(launcher) {
      const subject = await launcher.start(STANDARD);
      await subject.ask(PATH);
      await subject.logged("rep.session_key.issued", [
        "client_ip",
        "origin",
        "key_id",
      ]);
    },
  },
  {
    id: "11.1.9",
    async run(launcher) {
      const subject = await launcher.start(STANDARD);
      const page = await subject.page("/");
      expect(
        await subject.key(page) !== await subject.key(page),
        "expected another key for the same page",
      );
    },
  },
  { id: "4.5", run: checkHealth },
  { id: "4.4-origin", run: checkOrigins },
  { id: "4.4-cors", run: checkCors },
  {
    id: "4.4-own",
    async run(launcher) {
      const subject = await launcher.start({
        variables: VARIABLES,
        options: { "allowed-origins": launcher.target.url },
      });
      const { status } = await subject.ask(PATH, {
        headers: { "sec-fetch-site": "same-origin" },
      });
      expectEqual(
        "the status for a page of the gateway, which has no Origin",
        status,
        403,
      );
    },
  },
  {
    id: "S2.3",
    async run(launcher) {
      const { status } = await (await launcher.start({ variables: VARIABLES }))
        .ask(PATH, {
          headers: { referer: `${FOREIGN}/page` },
        });
      expectEqual("the status with a foreign Referer", status, 403);
    },
  },
  {
    id: "4.4-ttl",
    async run(launcher) {
      const manifest =
        `version: "0.1.0"\nvariables:\n  TOKEN:\n    tier: sensitive\nsettings:\n  session_key_ttl: "5m"\n`;
      const setup = { variables: VARIABLES, manifest };
      const hasNotStarted = await launcher.expectNoStart(
        "5m",
        setup,
        "session_key_ttl",
      ).then(() => true, () => false);
      if (!hasNotStarted) await checkExpiry(launcher, { ...setup });
    },
  },
  {
    id: "4.4-rate",
    run: (launcher) => checkRate(launcher, () => ({})),
  },
  {
    id: "4.4-client",
    run: (launcher) =>
      checkRate(
        launcher,
        (index) => ({ "x-forwarded-for": `192.0.2.${index + 1}` }),
      ),
  },
  {
    id: "S2.6",
    async run(launcher) {
      const { healthUrl } = launcher.target;
      expect(healthUrl !== undefined, "not asked without --health-url");
      const subject = await launcher.start({
        variables: VARIABLES,
        options: { "health-port": new URL(healthUrl).port },
      });
      await subject.reportsAt(healthUrl);
    },
  },
];

async function checkKey(launcher: Launcher): Promise<void> {
  const { text, status } = await (await launcher.start(STANDARD)).ask(PATH);
  expectEqual("the status", status, 200);
  const { key, expires_at } = JSON.parse(text);
  expectEqual("the bytes of the key", decodeBase64(key).length, 32);
  expect(
    /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(expires_at),
    `expected a time, got ${expires_at}`,
  );
  await checkExpiry(launcher, STANDARD);
}

async function checkHealth(launcher: Launcher): Promise<void> {
  const { text } = await (await launcher.start(STANDARD)).ask("/rep/health");
  const { status, version, variables, guardrails, uptime_seconds } = JSON
    .parse(text); // a gateway may report more than these
  const report = { status, variables, guardrails };
  const [publicCount, sensitive, server] = [PUBLIC, SENSITIVE, SERVER].map((
    tier,
  ) => Object.keys(tier).length);
  expectEqual("the report", sorted(report), {
    guardrails: { blocked: 0, warnings: 0 },
    status: "healthy",
    variables: { public: publicCount, sensitive, server },
  });
  expect(
    typeof version === "string" && Number.isInteger(uptime_seconds),
    "expected a version and whole seconds",
  );
}

async function checkExpiry(launcher: Launcher, setup: Setup): Promise<void> {
  const { text } = await (await launcher.start(setup)).ask(PATH);
  const left = Date.parse(JSON.parse(text).expires_at) - Date.now();
  expect(
    left > 0 && left <= MAX_TTL_MS + TOLERANCE_MS,
    `expected a key for at most 30 s, got ${left} ms`,
  );
}

async function checkOrigins(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(ORIGINS);
  const allowed = await subject.ask(PATH, { headers: { origin: ALLOWED } });
  expectEqual("the status for a configured origin", allowed.status, 200);
  expectEqual(
    "its CORS header",
    allowed.headers.get("access-control-allow-origin"),
    ALLOWED,
  );
  expectEqual(
    "the status for another",
    (await subject.ask(PATH, { headers: { origin: FOREIGN } })).status,
    403,
  );
  expectEqual("the status without one", (await subject.ask(PATH)).status, 403);
  const unrestricted = await launcher.start({ variables: VARIABLES });
  expectEqual(
    "the status without one if none is configured",
    (await unrestricted.ask(PATH)).status,
    200,
  );
}

async function checkCors(launcher: Launcher): Promise<void> {
  for (
    const [what, setup] of [["one origin", ORIGINS], [
      "no origin",
      STANDARD,
    ]] as const
  ) {
    const subject = await launcher.start(setup);
    for (const method of ["GET", "OPTIONS"]) {
      const { headers } = await subject.ask(PATH, {
        method,
        headers: { origin: FOREIGN },
      });
      const header = headers.get("access-control-allow-origin");
      expect(
        header === null,
        `${method} with ${what} configured: expected no CORS header, got ${header}`,
      );
    }
  }
}

async function checkRate(
  launcher: Launcher,
  headersOf: (index: number) => Record<string, string>,
): Promise<void> {
  const subject = await launcher.start({ variables: VARIABLES });
  const statuses = [];
  for (let index = 0; index <= MAX_KEYS; index++) {
    statuses.push(
      (await subject.ask(PATH, { headers: headersOf(index) })).status,
    );
  }
  expectEqual("the statuses", statuses, [...Array(MAX_KEYS).fill(200), 429]);
}

/** Returns an object with its fields in the order of their names, at every depth. */
function sorted(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).sort().map(([name, field]) => [name, sorted(field)]),
  );
}
