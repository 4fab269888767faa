import { assertEquals } from "@std/assert";
import {
  type GuardrailWarning,
  scanForSecrets,
  shannonEntropy,
} from "../../../../src/core/config/variables/guardrails.ts";
import type { Tier } from "../../../../src/core/config/variables/tiers.ts";

function scan(value: string, tier: Tier = "public"): GuardrailWarning[] {
  return scanForSecrets([{ name: "NAME", tier, value }], new Map());
}

/** Scans a list, as the manifest declares it. */
function scanList(value: string): GuardrailWarning[] {
  const declarations = new Map([["NAME", { type: "csv" }]]);
  return scanForSecrets(
    [{ name: "NAME", tier: "public", value }],
    declarations,
  );
}

function knownFormat(what: string) {
  return {
    name: "NAME",
    detection: "known_format",
    detail: `the value looks like ${what}`,
  };
}

/** 20 different characters, with which no real token has a valid checksum. */
const RANDOM = "aB3dE6gH9jK2mN5pQ8sT";

/** Secrets in two parts, so that secret scanners do not report this file. */
const SECRETS:
  readonly (readonly [what: string, head: string, tail: string])[] = [
    ["an AWS access key", "AKIA", "IOSFODNN7EXAMPLE"],
    ["an AWS access key", "ASIA", "IOSFODNN7EXAMPLE"],
    ["an AWS access key", "key id: AK", "IAIOSFODNN7EXAMPLE, in prose"],
    [
      "a JSON Web Token",
      "eyJhbGciOiJIUzI1NiJ9.",
      "eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    ],
    ["a JSON Web Token", "eyJhbGciOiJub25lIn0.", "eyJzdWIiOiIxIn0."],
    [
      "a JSON Web Token",
      "https://api.example.com/?token=eyJhbGciOiJIUzI1NiJ9.",
      "eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    ],
    ["a GitHub token", "ghp_", RANDOM],
    ["a GitHub token", "gho_", RANDOM],
    ["a GitHub token", "ghu_", RANDOM],
    ["a GitHub token", "ghs_", RANDOM],
    ["a GitHub token", "ghr_", RANDOM],
    ["a GitHub token", "https://ghp_", `${RANDOM}@github.com/example/app.git`],
    ["a GitHub token", "github_pat_", RANDOM],
    ["a GitLab token", "glpat-", RANDOM],
    ["a Stripe secret key", "sk_live_", RANDOM],
    ["a Stripe secret key", "sk_test_", RANDOM],
    ["a Stripe secret key", "rk_live_", RANDOM],
    ["a Stripe live key", "pk_live_", RANDOM],
    ["a webhook's signing secret", "whsec_", RANDOM],
    ["an API key of an AI service", "sk-", RANDOM],
    ["an API key of an AI service", "sk-proj-", RANDOM],
    ["an API key of an AI service", "sk-ant-api03-", RANDOM],
    ["an API key of an AI service", "sk-", "0123456789abcdef0123456789abcdef"],
    ["a Slack token", "xoxb-", "123456789012-abcdef"],
    ["a Slack webhook", "https://hooks.slack.com/", "services/T000/B000/abc"],
    ["a Discord webhook", "https://discord.com/", "api/webhooks/1/abc"],
    ["a SendGrid key", "SG.", `${RANDOM}.${RANDOM}`],
    ["a Google API key", "AIza", `${RANDOM}${RANDOM.slice(0, 15)}`],
    ["an npm token", "npm_", `${RANDOM}${RANDOM.slice(0, 16)}`],
    ["a token for a service's API", "hf_", `${RANDOM}${RANDOM}`],
    ["a token for a service's API", "shpat_", RANDOM],
    ["a token for a service's API", "GOCSPX-", RANDOM],
    ["a token for a service's API", "sntrys_", RANDOM],
    ["a token for a service's API", "dp.st.dev.", RANDOM],
    ["a token for a service's API", "phx_", `${RANDOM}${RANDOM}`],
    ["a token for a service's API", "glsa_", RANDOM],
    ["a token for a service's API", "pypi-AgE", RANDOM],
    ["a token for a service's API", "xai-", `${RANDOM}${RANDOM}`],
    ["a token for a service's API", "dapi", "0123456789abcdef0123456789abcdef"],
    [
      "a token for a service's API",
      "key=PMAK-",
      "0123456789abcdef01234567-89ab",
    ],
    [
      "a private key",
      "-----BEGIN PRIVATE ",
      "KEY-----\nMIIE\n-----END PRIVATE KEY-----",
    ],
    ["a private key", "-----BEGIN RSA PRIVATE ", "KEY-----"],
    ["a private key", "-----BEGIN OPENSSH PRIVATE ", "KEY-----"],
    ["a private key", "-----BEGIN PGP PRIVATE ", "KEY BLOCK-----"],
    ["an age key", "AGE-SECRET-KEY-1", "QQQQQQQQQQQQQQQQQQQQQQQQ"],
    [
      "a URL with a password in it",
      "postgres://app:",
      "hunter2@db.example.com/app",
    ],
    ["a URL with a password in it", "redis://:", "hunter2@cache.example.com"],
    [
      "a URL with a password in it",
      "https://0123456789abcdef:",
      "0123456789abcdef@sentry.io/1",
    ],
    [
      "a URL with a secret in it",
      "https://blobs.example.net/c?sv=1&sig=",
      RANDOM,
    ],
    [
      "a URL with a secret in it",
      "https://example.com/?client_secret=",
      "hunter2hunter2",
    ],
  ];

for (const [what, head, tail] of SECRETS) {
  Deno.test(`scanForSecrets() warns of ${what}: ${head}…`, () => {
    assertEquals(scan(head + tail), [knownFormat(what)]);
  });
}

Deno.test("scanForSecrets() warns of more than 4.5 bits of entropy per character", () => {
  assertEquals(shannonEntropy("acegikmoqsuwy1357924680").toFixed(2), "4.52");
  assertEquals(scan("acegikmoqsuwy1357924680"), [{
    name: "NAME",
    detection: "high_entropy",
    detail: "the value has 4.52 bits of entropy per character",
  }]);
  assertEquals(shannonEntropy("acegikmoqsuwy135792468").toFixed(2), "4.46");
  assertEquals(scan("acegikmoqsuwy135792468"), []);
  const exactly = "acegikmoqsuwy135792468BD792468BD"; // 16 characters once, 8 twice
  assertEquals(shannonEntropy(exactly), 4.5);
  assertEquals(scan(exactly), []);
});

const RANDOM_40 = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

const RANDOM_VALUES = {
  "as a whole": RANDOM_40,
  "with padding": `${RANDOM_40}==`,
  "with the punctuation of a password": "p@$W0rd!kL9#xZ2^vB7&nM4*qT6%",
  "after a name and an equals sign": `secret=${RANDOM_40}`,
  "after a name and a colon": `aws:${RANDOM_40}`,
  "in a list": `a,${RANDOM_40},b`,
  "in JSON": JSON.stringify({ url: "https://example.com", key: RANDOM_40 }),
  "in prose": `the key is ${RANDOM_40} for now`,
  "beside a URL": `https://example.com ${RANDOM_40}`,
};

for (const [where, value] of Object.entries(RANDOM_VALUES)) {
  Deno.test(`scanForSecrets() warns of high entropy ${where}`, () => {
    assertEquals(scan(value).map(({ detection }) => detection), [
      "high_entropy",
    ]);
  });
}

Deno.test("scanForSecrets() warns of encoded text of more than 64 characters", () => {
  const hex = "0123456789abcdef".repeat(4);
  assertEquals(scan(hex), []);
  assertEquals(scan(`${hex}0`), [{
    name: "NAME",
    detection: "length_anomaly",
    detail: "the value has 65 characters of what looks like encoded data",
  }]);
  assertEquals(scan(`{"hash":"${hex}0"}`).map(({ detection }) => detection), [
    "length_anomaly",
  ]);
});

Deno.test("scanForSecrets() does not take a long token without digits, or with punctuation, for encoded text", () => {
  assertEquals(
    ["AAb".repeat(30), "aB1!".repeat(20)].flatMap((token) => scan(token)),
    [],
  );
});

Deno.test("scanForSecrets() warns of a VAPID public key because of its length, as REP requires", () => {
  const key =
    "BEl62iUYgUivxIkv69yViEuiBIa-Ib9-SkvMeAtA3LFgDzkrxZJjSgSnfckjBJuBkr3qBUYIHBQFLXYp5Nksh8U";
  assertEquals(scan(key).map(({ detection }) => detection), ["length_anomaly"]);
});

Deno.test("scanForSecrets() reports the most reliable detection only, and never the value", () => {
  const secret = `AKIAIOSFODNN7EXAMPLE ${
    "0123456789abcdef".repeat(5)
  } ${RANDOM_40}`;
  assertEquals(scan(secret), [knownFormat("an AWS access key")]);
});

Deno.test("scanForSecrets() scans PUBLIC variables only", () => {
  assertEquals(scan("AKIAIOSFODNN7EXAMPLE", "sensitive"), []);
  assertEquals(scan("AKIAIOSFODNN7EXAMPLE", "server"), []);
});

Deno.test("scanForSecrets() warns once per variable, in their order", () => {
  const value = "AKIAIOSFODNN7EXAMPLE";
  const variables = ["B", "A", "C"].map((name) => ({
    name,
    tier: "public" as const,
    value: name === "C" ? "x" : value,
  }));
  const warnings = scanForSecrets(variables, new Map());
  assertEquals(warnings.map(({ name }) => name), ["B", "A"]);
});

Deno.test("scanForSecrets() scans each element of a csv variable alone, without the spaces around it", () => {
  const hosts = "redis://cache:6379,me@example.com";
  assertEquals(scan(hosts), [knownFormat("a URL with a password in it")]);
  assertEquals(scanList(hosts), []);
  assertEquals(scanList(",, ,a"), []);
  const withSecret = `dark-mode, AKIA${"IOSFODNN7EXAMPLE"} ,beta`;
  assertEquals(scanList(withSecret), [knownFormat("an AWS access key")]);
});

const HARMLESS = {
  "the host of a mirror":
    "https://pypi-internal-mirror-production-eu-west-1.example.com/simple",
  "a host named after a service":
    "https://xai-platform-frontend-production-v2-eu.example.com",
  "a folder named after a service":
    "/hf_transformers-models-production-eu-west-1/",
  "a package named after a service":
    "my-xai-WidgetIntegrationTestsEnvironment01",
  "the name of an endpoint": "dapiKeyManagementServiceProductionEndpoint1",
  "nothing": "",
  "a URL": "https://api.example.com/v1",
  "a URL with a query":
    "https://api.example.com/search?lang=de&sort=Price-Ascending&page=12&filter%5Bcolor%5D=Blue%20XL",
  "a URL with a fragment route":
    "https://app.example.com/#/Dashboard/Overview?tab=QuarterlyFigures2024",
  "a URL with an at sign in its query":
    "https://fonts.example.com?family=Inter:wght@400;500&family=JetBrains+Mono:wght@700",
  "a font URL":
    "https://fonts.googleapis.com/css2?family=Inter:ital,wght@0,400;0,700;1,400&display=swap",
  "a form's URL":
    "https://docs.google.com/forms/d/e/1FAIpQLSdx0Yz9w8v7u6t5s4r3q2p1o0n9m8l7k6j5h4g3f2d1/viewform",
  "a tile template":
    "https://{s}.tile.example.org/{z}/{x}/{y}{r}.png?Style=Dark&Version=2024",
  "a web socket URL":
    "wss://ws.example.com:8443/socket?protocol=graphql-transport-ws",
  "a URL of localhost": "http://localhost:3000/@scope/package",
  "a base path": "/my-app/v2/",
  "a long path":
    "/static/media/2024/11/landing-page/hero/background-image-large-1920x1080.webp",
  "a path with capitals":
    "/api/v2/Customers/Search/ByQueryString/WithFilters_X",
  "a Sentry DSN":
    "https://0123456789abcdef0123456789abcdef@o1.ingest.sentry.io/1",
  "a Google Analytics id": "G-ABCDE12345",
  "an old Google Analytics id": "UA-123456-1",
  "a Tag Manager id": "GTM-ABC1234",
  "a UUID": "123e4567-e89b-12d3-a456-426614174000",
  "UUIDs":
    "123e4567-e89b-12d3-a456-426614174000,6fa459ea-ee8a-3ca4-894e-db77e160355e",
  "a version": "2.4.1",
  "a full semantic version": "1.0.0-beta.11+exp.sha.5114f85.20241121T093000Z",
  "feature flags":
    "dark-mode,new-checkout,ai-assist,Beta_Program_2024,kWh-meter,quick-brown-fox-jumps-over-lazy-dog",
  "feature flags with bars":
    "dark-mode|new-checkout|ai-assist|Beta_Program_2024|kWh-meter|quick-vixens",
  "a long flag": "quick-brown-fox-jumps-over-the-lazy-dog-2024",
  "a long name in camel case": "enableNewCheckoutFlowForReturningCustomersV2",
  "a name with dots":
    "com.example.mobile.shop.CheckoutActivity.QuickBuyView2024",
  "JSON":
    '{"theme":"dark","limits":{"maxUploadMb":25,"retryAfterSeconds":[1,2,5]},"beta":true,"locale":"de-AT"}',
  "JSON with URLs":
    '[{"name":"Docs","url":"https://docs.example.com/Guide/QuickStart?x=1"},{"name":"Jobs"}]',
  "a colour": "#1a2b3c",
  "colours": "#1a2b3c,#FFAA00,#0099CC,rgba(12,34,56,0.5),hsl(210,50%,40%)",
  "a gradient": "linear-gradient(90deg,#FF0080,#7928CA)",
  "a locale list": "de-AT,en-GB,fr-CA,pt-BR,zh-Hant-TW",
  "a time zone": "America/Argentina/Buenos_Aires",
  "a host": "my-service.my-namespace.svc.cluster.local",
  "a Git SHA": "9fceb02d0ae598e95dc970b74767f19372d61af8",
  "a short Git SHA": "9fceb02",
  "a SHA-256":
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
  "a script's hash":
    "sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQHo1wx4JwY8wC",
  "a policy":
    "default-src 'self'; script-src 'self' https://cdn.example.com 'sha256-B2yPHKaXnvFWtRChIbabYmUBFZdVfKKXHbWtWidDVF8='",
  "prose":
    'Planned maintenance on Friday, 27 November 2026, 22:00-23:30 CET: the shop (incl. "Quick Buy") stays open; see FAQ #42!',
  "prose without spaces":
    "定期メンテナンスのため本サービスは十一月二十七日の夜間にご利用いただけません何卒ご了承ください",
  "an address": "support+shop@example.com",
  "a phone number": "+43 1 234 56 78-90",
  "a date": "2026-11-21T09:30:00.000Z",
  "a number": "31536000000",
  "a Stripe test key":
    `pk_${"test"}_51H8x0YKzQ3mB7nRt5LvWc9Dp2Fg6Js4Ha1Ue8Xi0Oy3Zq7Mk5Vb9Nw2Ct6Rd4Sf1Gh8Jl0Pa3`,
  "a Mapbox public token":
    "pk.eyJ1IjoiZXhhbXBsZSIsImEiOiJja2V4YW1wbGUwMDAwIn0.Zx9Yw8Vu7Ts6Rq5Po4Nm3L",
  "a PostHog key": "phc_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V",
  "a Google client id":
    "123456789012-abcdefghijklmnop1234567890qrstuv.apps.googleusercontent.com",
  "a Datadog client token": "pub0123456789abcdef0123456789abcdef",
  "a Turnstile site key": "0x4AAAAAAABkMYinukE8nzYS",
  "an Application Insights connection string":
    "InstrumentationKey=00112233-4455-6677-8899-aabbccddeeff;IngestionEndpoint=https://westeurope-5.in.applicationinsights.azure.com/;LiveEndpoint=https://westeurope.livediagnostics.monitor.azure.com/",
  "a data URL":
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "an SVG":
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"><path d="M12 2L2 7l10 5 10-5-10-5z"/></svg>',
  "a regular expression": "^[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\\.[a-zA-Z]{2,}$",
  "a public key":
    "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEEVs/o5+uQbTjL3chynL4wXgUg2R9\nq9UU8I5mEovUf86QZ7kOBIjJwqnzD1omageEHWwHdBO6B+dFabmdT9POxg==\n-----END PUBLIC KEY-----",
  "Slovak words in a URL":
    "https://shop.example.com/sk-velky-vyber-produktov-online-2024",
  "a task": "task-sk-runner-for-the-very-long-job-name",
  "a template": "{{user.firstName}} {{user.lastName}} ({{company}})",
};

for (const [what, value] of Object.entries(HARMLESS)) {
  Deno.test(`scanForSecrets() does not warn of ${what}`, () =>
    assertEquals(scan(value), []));
}

Deno.test("scanForSecrets() scans large values in linear time", () => {
  const parts = ["a-", "sk-", "eyJ", "a:b@", "://", "-----BEGIN A-----", "aB"];
  const started = performance.now();
  for (const part of parts) scan(part.repeat(64_000 / part.length));
  assertEquals(performance.now() - started < 60_000, true); // quadratic time would take minutes
});

Deno.test("shannonEntropy() returns bits per character", () => {
  assertEquals(["", "aaaa", "abab", "abcd", "😀😁"].map(shannonEntropy), [
    0,
    0,
    1,
    2,
    1,
  ]);
});
