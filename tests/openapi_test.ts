/** Compares docs/openapi.yaml with the responses of a gateway. */
import { Validator } from "@seriousme/openapi-schema-validator";
import { assertEquals, assertRejects } from "@std/assert";
import config from "../deno.json" with { type: "json" };
import { readStart, type Start } from "../src/command/options/read_start.ts";
import { Service } from "../src/command/start/service.ts";
import { ConfigurationError } from "../src/core/config/variables/snapshot.ts";
import type { GatewayOptions } from "../src/options.ts";
import { noTelemetry } from "../src/core/observe/telemetry.ts";
import { memoryStore } from "../src/engines/memory.ts";
import { systemClock } from "../src/core/values/clock.ts";
import { FakeClock } from "../tools/fake_clock.ts";
import { captureLog, setUp, type TestGateway } from "./_gateway.ts";
import { OpenApi } from "./_openapi.ts";
import { fallibleStore } from "./_store.ts";
import { TempDirectory } from "./_temp.ts";

const api = new OpenApi(await Deno.readTextFile("docs/openapi.yaml"));

/** A request, its documented path, and the status it gets. */
interface Exchange {
  status: number;
  method: string;
  path: string;
  query?: string;
  headers?: HeadersInit;
  /** @default {a valid one for a POST} */
  body?: string;
}

/** What a gateway is asked in a certain state. */
interface Scenario {
  name: string;
  variables?: Record<string, string>;
  options?: GatewayOptions;
  /** Brings the gateway into that state. */
  prepare?: (gate: TestGateway) => unknown;
  exchanges: Exchange[];
  /** Ends what it has begun. */
  finish?: () => unknown;
}

const STOPPED = new FakeClock(1_700_000_400_000);

const HEALTH_PORT_PATHS = ["/livez", "/readyz", "/metrics", "/status"];
const LOCAL = { host: "localhost" };
const JSON_ONLY = { accept: "application/json" };
const PAGE = { "sec-fetch-site": "same-origin" };
const FOREIGN = { origin: "https://elsewhere.example" };

/** Returns an exchange, such as `exchange("GET /rep/health 200")`. */
function exchange(
  line: string,
  rest: Pick<Exchange, "query" | "headers" | "body"> = {},
) {
  const [method = "", path = "", status] = line.split(" ");
  return { method, path, status: Number(status), ...rest };
}

/** The operations with these paths, each with the same status. */
function everyOperation(
  status: number,
  pathPattern: RegExp,
  headers?: HeadersInit,
): Exchange[] {
  const operations = new Set(
    api.responses.map((name) => name.replace(/ \d+$/, "")),
  );
  return [...operations].filter((name) => pathPattern.test(name)).map((name) =>
    exchange(`${name} ${status}`, headers && { headers })
  );
}

/** Flags with three of them are larger than what is sent as a whole. */
const LARGE = "x".repeat(60_000);

/** They are not read meanwhile. */
let unread: Response | undefined;

const THROWS = { ...noTelemetry, nameSpan: () => throwError() };

function throwError(): never {
  throw new Error("unexpected");
}

const SCENARIOS: Scenario[] = [
  {
    name: "a healthy gateway",
    exchanges: [
      exchange("GET /rep/health 200"),
      exchange("HEAD /rep/health 200"),
      exchange("GET /rep/session-key 200", { headers: PAGE }),
      exchange("GET /rep/session-key 200", {
        headers: { origin: "http://gateway.test" },
      }),
      exchange("OPTIONS /rep/session-key 204", {
        headers: { origin: "http://gateway.test" },
      }),
      exchange("GET /rep/session-key 400", { query: "?kid=1x" }),
      exchange("GET /rep/session-key 403", { headers: FOREIGN }),
      exchange("OPTIONS /rep/session-key 403", { headers: FOREIGN }),
      exchange("GET /rep/session-key 410", {
        query: "?kid=1700000400-0f1e2d3c4b5a",
      }),
      exchange("GET /rep/changes 200", { query: "?last_event_id=none" }),
      exchange("GET /rep/changes 200", { query: "?heartbeat=event&poll" }),
      exchange("GET /rep/changes 200", { query: "?last_event_id=0&poll=30" }),
      exchange("GET /rep/changes 200", {
        query: "?format=ofrep&last_event_id=none",
      }),
      exchange("OPTIONS /rep/changes 204", { headers: FOREIGN }),
      exchange("OPTIONS /rep/changes 204", {
        headers: { origin: "http://gateway.test" },
      }),
      exchange("POST /ofrep/v1/evaluate/flags 200"),
      exchange("POST /ofrep/v1/evaluate/flags 200", { headers: FOREIGN }),
      exchange("POST /ofrep/v1/evaluate/flags 304", {
        headers: { "if-none-match": "*" },
      }),
      exchange("POST /ofrep/v1/evaluate/flags/{key} 200"),
      ...everyOperation(204, /OPTIONS .*ofrep/),
      exchange("GET /ofrep/v1/evaluate/flags 405"),
      exchange("GET /rep/client.js 200"),
      exchange("HEAD /rep/client.js 200"),
      exchange("GET /rep/client.js 206", { headers: { range: "bytes=0-9" } }),
      exchange("GET /rep/client.js 416", {
        headers: { range: "bytes=999999-" },
      }),
      exchange("GET /rep/client.js 304", { headers: { "if-none-match": "*" } }),
      exchange("HEAD /rep/client.js 304", {
        headers: { "if-none-match": "*" },
      }),
      ...everyOperation(200, /livez|readyz|metrics/),
      ...everyOperation(200, /status/, LOCAL),
      exchange("GET /status 200", { headers: { ...LOCAL, ...JSON_ONLY } }),
      exchange("POST /status 405"),
      exchange("POST /rep/health 405"),
      exchange("HEAD /rep/session-key 405"),
      exchange("PUT /rep/changes 405", {
        headers: { origin: "http://gateway.test" },
      }),
      exchange("DELETE /rep/client.js 405"),
      exchange("POST /livez 405"),
      exchange("POST /readyz 405"),
      exchange("POST /metrics 405"),
    ],
  },
  {
    name: "a gateway that has rejected its last reload",
    prepare: (gate) =>
      assertRejects(
        () => gate.set({ REP_PUBLIC_A: "1", REP_SERVER_A: "2" }),
        ConfigurationError,
      ),
    exchanges: [
      exchange("GET /rep/health 200"),
      exchange("GET /readyz 200"),
      exchange("GET /status 200", { headers: { ...LOCAL, ...JSON_ONLY } }),
    ],
  },
  {
    name: "a gateway that is stopping",
    prepare: (gate) => gate.gateway.beginShutdown(),
    exchanges: everyOperation(503, /health|readyz/),
  },
  {
    name: "a gateway that has stopped",
    prepare: (gate) => gate.gateway.close(),
    exchanges: [
      exchange("GET /rep/changes 503", { query: "?last_event_id=0&poll=30" }),
    ],
  },
  {
    name: "a gateway without hot reload and SENSITIVE variables",
    variables: { REP_PUBLIC_B: "1" },
    options: { hotReload: false },
    exchanges: [
      ...everyOperation(404, /session-key|changes/),
      exchange("POST /ofrep/v1/evaluate/flags 200"),
      exchange("POST /ofrep/v1/evaluate/flags/{key} 404"),
    ],
  },
  {
    name: "a gateway with a limit of one key",
    options: { sessionKeyMaxRate: 1 },
    exchanges: [
      exchange("GET /rep/session-key 200"),
      exchange("GET /rep/session-key 429"),
    ],
  },
  {
    name: "a gateway of which the same client does not read the flags",
    variables: Object.fromEntries(
      ["A", "B", "C"].map((name) => [`REP_PUBLIC_${name}`, LARGE]),
    ),
    options: { maxTransfers: 1, clock: STOPPED },
    async prepare({ gateway }) {
      const url = "http://gateway.test/ofrep/v1/evaluate/flags";
      unread = await gateway.fetch(new Request(url, { method: "POST" }));
    },
    exchanges: [exchange("POST /ofrep/v1/evaluate/flags 429")],
    finish: () => unread?.body?.cancel(),
  },
  {
    name: "a gateway with other hosts",
    options: { allowedHosts: ["other.test"] },
    exchanges: everyOperation(421, /session-key|changes|client|status|ofrep/),
  },
  {
    name: "a gateway, asked with an invalid host",
    exchanges: everyOperation(400, /./, { host: "a?b" }).map((it) => ({
      ...it,
      query: "?b",
    })), // as such a host yields
  },
  {
    name: "a gateway with an unexpected error",
    options: { telemetry: THROWS },
    exchanges: everyOperation(500, /./),
  },
  {
    name: "a gateway that waits for its store",
    options: { store: fallibleStore(memoryStore(), () => true) },
    exchanges: [
      ...everyOperation(503, /health|readyz|session-key|client|ofrep/),
      ...everyOperation(200, /livez|metrics/),
      exchange("GET /status 200", { headers: { ...LOCAL, ...JSON_ONLY } }),
    ],
  },
  {
    name: "a gateway that has started without its store",
    options: {
      store: fallibleStore(memoryStore(), () => true),
      startWithoutStore: true,
      clock: new FakeClock(1_700_000_400_000),
    },
    exchanges: [
      exchange("GET /rep/session-key 503"),
      exchange("POST /ofrep/v1/evaluate/flags 503", {
        query: "?flagConfigEtag=1795253807364417",
      }),
    ],
  },
];

/** What a gateway answers while it starts, and once that has failed. */
const START: Exchange[] = [
  ...everyOperation(200, /livez/),
  ...everyOperation(503, /health|readyz/),
  ...everyOperation(503, /session-key|changes|client|metrics|status|ofrep/),
];

Deno.test("docs/openapi.yaml is a valid OpenAPI 3.1 document of this version", async () => {
  assertEquals(await new Validator().validate(structuredClone(api.document)), {
    valid: true,
  });
  const { openapi, info } = api.document as {
    openapi: string;
    info: { version: string };
  };
  assertEquals([openapi.slice(0, 3), info.version], ["3.1", config.version]);
});

Deno.test("the examples in docs/openapi.yaml conform to their schemas", () => {
  assertEquals(api.exampleDifferences(), []);
});

Deno.test("every response in docs/openapi.yaml is provoked by a test below", () => {
  const exchanges = [
    ...SCENARIOS.flatMap((scenario) => scenario.exchanges),
    ...START,
  ];
  const provoked = new Set(
    exchanges.map(({ method, path, status }) => `${method} ${path} ${status}`),
  );
  assertEquals(api.responses.filter((name) => !provoked.has(name)), []);
  assertEquals(api.responses.length > 60, true);
});

Deno.test("docs/openapi.yaml has the paths of the tables of endpoints, and no others", async () => {
  const tables = await Deno.readTextFile("docs/reference.md") +
    await Deno.readTextFile("docs/operations.md");
  const rows = [
    ...tables.matchAll(/^\| `(?:GET |POST )?(\/[a-z\d/.{}-]+)` +\|/gm),
  ].map((
    [, path],
  ) => String(path));
  const documented = new Set(api.responses.map((name) => name.split(" ")[1]));
  assertEquals([...documented].toSorted(), [...new Set(rows)].toSorted());
});

for (
  const { name, variables, options, prepare, exchanges, finish } of SCENARIOS
) {
  Deno.test(`${name} answers as docs/openapi.yaml says`, async () => {
    await using gate = await setUp(
      variables ?? { REP_PUBLIC_A: "1", REP_SENSITIVE_S: "secret" },
      { ofrep: true, ...options },
    );
    await prepare?.(gate);
    for (
      const { query = "", headers = {}, body, ...documented } of exchanges
    ) {
      const { method, path } = documented;
      const host = new Headers(headers).get("host") === LOCAL.host
        ? LOCAL.host
        : "gateway.test";
      const isPost = method === "POST";
      const url = `http://${host}${path.replace("{key}", "A")}${query}`;
      const request = new Request(url, {
        method,
        headers,
        body: isPost ? body ?? `{"context":{}}` : null,
      });
      const response = await (HEALTH_PORT_PATHS.includes(path)
        ? gate.gateway.fetchHealth
        : gate.gateway.fetch)(
          request,
        );
      await assertDocumented(documented, response);
    }
    await finish?.();
  });
}

Deno.test("the stream has deletions as docs/openapi.yaml says", async () => {
  await using gate = await setUp({ REP_PUBLIC_A: "1", REP_PUBLIC_B: "1" });
  const [updated] = gate.logged("rep.config.changed");
  await gate.set({ REP_PUBLIC_B: "1" });
  const response = await gate.ask("/rep/changes", {
    headers: { "last-event-id": String(updated?.id) },
  });
  await assertDocumented(exchange("GET /rep/changes 200"), response);
});

Deno.test("a gateway answers as docs/openapi.yaml says while it starts, and when that fails", async () => {
  await using directory = await TempDirectory.make();
  await Deno.writeTextFile(
    directory.at("app.env"),
    "REP_PUBLIC_A=1\nREP_SERVER_A=2\n",
  );
  const args = ["--kv", ":memory:", "--env-file", directory.at("app.env")];
  const context = {
    ...captureLog(),
    telemetry: undefined,
    clock: systemClock,
    droppedLines: () => 0,
  };
  const service = new Service(
    await readStart(args, {}) as Start,
    context,
  );
  const responses = START.map(({ method, path }) => {
    const request = new Request(`http://gateway.test${path}`, { method });
    return HEALTH_PORT_PATHS.includes(path)
      ? service.fetchHealth(request)
      : service.fetch(request);
  });
  await assertRejects(() => service.start(), ConfigurationError);
  for (const [index, expected] of START.entries()) {
    await assertDocumented(expected, await responses[index]!);
  }
});

async function assertDocumented(
  { method, path, status }: Exchange,
  response: Response,
) {
  const differences = await api.differences(method, path, response);
  assertEquals({ method, path, status: response.status, differences }, {
    method,
    path,
    status,
    differences: [],
  });
}
