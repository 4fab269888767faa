/**
 * Takes a picture of the status page in a rollout, and writes docs/status.png:
 * `deno run $(deno run -A tools/std.ts) -A tools/status_picture.ts`. It needs a browser, see `find_browser.ts`.
 */
import { type Gateway, type GatewayOptions, memoryStore } from "../main.ts";
import { createGatewayIn } from "../src/gateway.ts";
import { UNKNOWN_PROCESS } from "../src/options.ts";
import { setStoredVariables } from "../src/stored/set_stored_variables.ts";
import { FakeClock } from "./fake_clock.ts";
import { launchBrowser } from "./launch_browser.ts";
import { seededRandom } from "./seeded_random.ts";

const FILE = "docs/status.png";
const SIZE = { width: 1_180, height: 1_000 };
const MINUTES = 58;
const MINUTE_MS = 60_000;

const VARIABLES = {
  REP_PUBLIC_API_URL: "https://api.example.com",
  REP_PUBLIC_FEATURE_FLAGS: "new-checkout,gift-cards",
  REP_PUBLIC_LOG_LEVEL: "info",
  REP_SENSITIVE_ANALYTICS_KEY: "not shown",
  REP_SERVER_DATABASE_URL: "not shown",
};
const NEWER = {
  ...VARIABLES,
  REP_PUBLIC_FEATURE_FLAGS: "new-checkout,dark-mode",
};
const INVALID = { ...VARIABLES, REP_PUBLIC_LOG_LEVEL: "verbose" };
const MANIFEST = `version: "0.1.0"
variables:
  API_URL: { tier: public, type: url }
  FEATURE_FLAGS: { tier: public, type: csv }
  LOG_LEVEL: { tier: public, type: enum, values: [debug, info, warn, error] }`;

/** A busy hour: clients come and go, and ask for session keys, some of them too often. */
async function passAnHour(
  gateway: Gateway,
  clock: FakeClock,
  random: () => number,
): Promise<void> {
  const streams: Response[] = [];
  for (let minute = 0; minute < MINUTES; minute++) {
    const visitors = Math.round(6 + 4 * Math.sin(minute / 9) + 3 * random());
    while (streams.length < visitors) {
      streams.push(
        await gateway.fetch(new Request("http://app.test/rep/changes")),
      );
    }
    for (const { body } of streams.splice(visitors)) await body?.cancel();
    const requests = minute === 31 ? 13 : Math.round(visitors * random());
    const headers = { "sec-fetch-site": "same-origin" };
    for (let request = 0; request < requests; request++) {
      await gateway.fetch(
        new Request("http://app.test/rep/session-key", { headers }),
      );
    }
    await clock.tick(MINUTE_MS);
  }
}

/** Two replicas in a rollout. The older one has rejected a reload. */
async function startReplicas(): Promise<{ older: Gateway; newer: Gateway }> {
  const clock = new FakeClock(Date.UTC(2026, 4, 12, 2));
  const random = seededRandom(1);
  let variables: Record<string, string> = VARIABLES;
  const store = memoryStore();
  // Two pods share a server: the picture must not show what nobody could set up.
  Object.defineProperty(store, "engine", { value: "PostgreSQL" });
  const common: GatewayOptions = {
    store,
    hotReload: true,
    maxStreamAgeMs: 86_400_000,
    random,
    clock,
  };
  const sourceOf = () => "/etc/app/app.env";
  const process = { ...UNKNOWN_PROCESS, sourceOf };
  const older = await createGatewayIn(process, {
    ...common,
    variables: () => variables,
    manifest: MANIFEST,
    instanceId: "app-7d9f-x2x4b:8080",
    revision: "v1.4.0",
  });
  await passAnHour(older, clock, random);
  await setStoredVariables(
    store,
    { API_URL: "https://eu.example.com" },
    { clock, by: "alice@example.com", why: "Move to the EU" },
  );
  await clock.tick(10_000);
  const newer = await createGatewayIn(process, {
    ...common,
    variables: NEWER,
    instanceId: "app-6c5b-9kq7p:8080",
    revision: "v1.5.0",
  });
  await clock.tick(20_000);
  variables = INVALID;
  await older.reload().catch(() => {}); // the page has the reason
  return { older, newer };
}

async function takePicture(url: string): Promise<Uint8Array> {
  const browser = await launchBrowser();
  const page = await browser.newPage({ viewport: SIZE, colorScheme: "light" });
  await page.goto(url);
  await page.waitForResponse((response) => response.url().endsWith("/status")); // a poll
  const next = await page.getByRole("heading", { name: "Variables" })
    .boundingBox();
  const height = Math.floor(next?.y ?? SIZE.height);
  const clip = { x: 0, y: 0, width: SIZE.width, height };
  const picture = await page.screenshot({ fullPage: true, clip }); // no section is cut
  await browser.close();
  return picture;
}

if (import.meta.main) {
  const { older } = await startReplicas();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    older.fetchHealth,
  );
  const picture = await takePicture(
    `http://127.0.0.1:${server.addr.port}/status`,
  );
  await Deno.writeFile(FILE, picture);
  await Deno.stdout.write(
    new TextEncoder().encode(`${FILE}: ${picture.length} bytes\n`),
  );
  Deno.exit(); // Playwright's pipes outlive the browser
}
