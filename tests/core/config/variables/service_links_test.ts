import { assertEquals } from "@std/assert";
import {
  serviceLinkWarnings,
  withoutServiceLinks,
} from "../../../../src/core/config/variables/service_links.ts";
import { evaluate } from "../../../../src/core/config/variables/snapshot.ts";
import { readStart } from "../../../../src/command/options/read_start.ts";
import { setStoredVariables } from "../../../../src/stored/set_stored_variables.ts";
import { memoryStore } from "../../../../src/engines/memory.ts";
import { run } from "../../../command/commands/_run.ts";
import { startCommand } from "../../../_command.ts";
import { setUp } from "../../../_gateway.ts";
import { serviceLinks } from "../../../_service_links.ts";
import { snapshotInput } from "../../../_snapshot.ts";
import { TempDirectory } from "../../../_temp.ts";

const PORTS = [
  { port: 80, name: "http-web" },
  { port: 53, protocol: "udp" },
  { port: 132, name: "s", protocol: "sctp" },
] as const;

/** Services that are named like variables and options. */
const SERVICES = [
  "rep",
  "rep-api",
  "rep-public",
  "rep-public-service", // shares REP_PUBLIC_SERVICE_PORT with rep-public
  "rep-public-mqtt",
  "rep-public-port",
  "rep-sensitive-x",
  "rep-server",
  "rep-gateway",
  "rep-gateway-health",
];

for (const service of SERVICES) {
  Deno.test(`service links of ${service} are no variables, over IPv4 and IPv6, with one port or several`, () => {
    for (const ip of ["10.43.0.7", "fd00:10:96::a", "::1"]) {
      for (const ports of [[{ port: 8080 }], PORTS, PORTS.toReversed()]) {
        const links = serviceLinks(service, ip, ports);
        const own = { REP_PUBLIC_A: "1", REP_PUBLIC_PORT_NUMBER: "2" };
        assertEquals(withoutServiceLinks({ ...own, ...links }), own);
      }
    }
  });
}

Deno.test("all Services at once are no variables, and are one warning", () => {
  const links = SERVICES.map((service, index) =>
    serviceLinks(service, `10.43.0.${index}`, PORTS)
  );
  const environment = Object.assign({}, ...links);
  assertEquals(withoutServiceLinks(environment), {});
  const [warning, ...others] = serviceLinkWarnings(environment);
  assertEquals(others, []);
  assertEquals(
    warning?.detail,
    `ignored, since Kubernetes sets it for the Service ${
      SERVICES.join(", ")
    }: expected enableServiceLinks: false in the pod`,
  );
});

const LINKS = serviceLinks("rep-public", "10.43.0.7");
const { REP_PUBLIC_SERVICE_HOST: _, ...WITHOUT_HOST } = LINKS;

/** Variables that somebody has set. */
const OWN: Record<string, Record<string, string>> = {
  "an address alone": {
    REP_PUBLIC_MQTT_PORT: "tcp://broker.example.com:1883",
  },
  "an IP address alone": { REP_PUBLIC_MQTT_PORT: "tcp://10.43.0.7:1883" },
  "a host alone": { REP_PUBLIC_DB_SERVICE_HOST: "10.43.0.7" },
  "a host, and the address of another one": {
    REP_PUBLIC_DB_SERVICE_HOST: "10.43.0.7",
    REP_PUBLIC_DB_PORT: "tcp://10.43.0.8:5432",
  },
  "names that Kubernetes never sets as addresses": {
    REP_PUBLIC_DB_SERVICE_HOST: "db.example.com",
    REP_PUBLIC_DB_PORT: "tcp://db.example.com:5432",
  },
  "a host, and a port of its own": {
    REP_PUBLIC_DB_SERVICE_HOST: "10.43.0.7",
    REP_PUBLIC_DB_SERVICE_PORT: "5432",
    REP_PUBLIC_DB_PORT: "5432",
  },
  "links without the host": WITHOUT_HOST,
};

for (const [what, environment] of Object.entries(OWN)) {
  Deno.test(`${what} stays a value`, () => {
    assertEquals(withoutServiceLinks(environment), environment);
    assertEquals(serviceLinkWarnings(environment), []);
  });
}

Deno.test("what a pod sets itself in place of a link is a value, and the other links are none", () => {
  const own = {
    REP_PUBLIC_PORT: "8080", // as the Service
    REP_PUBLIC_SERVICE_PORT: "9000",
    REP_PUBLIC_SERVICE_PORT_LIMIT: "5",
  };
  assertEquals(withoutServiceLinks({ ...LINKS, ...own }), own);
  const broker = { REP_PUBLIC_PORT: "tcp://broker.example.com:8080" };
  assertEquals(withoutServiceLinks({ ...LINKS, ...broker }), broker);
});

Deno.test("readStart() reads no option from service links, and warns once", async () => {
  const environment = {
    ...serviceLinks("rep-gateway-health", "10.43.0.8"),
    ...serviceLinks("rep-gateway", "10.43.0.7"),
    REP_GATEWAY_PORT: "9000",
  };
  const start = await readStart([], environment);
  if (start === "help" || start === "version") throw new Error(start);
  const { port, "health-port": healthPort } = start.options;
  assertEquals([port, healthPort], [9000, undefined]);
  assertEquals(start.warnings.length, 1);
  assertEquals(start.warnings[0]?.includes("enableServiceLinks"), true);
});

Deno.test("a module that passes its environment publishes no service link, and warns once", async () => {
  const environment = {
    ...LINKS,
    ...serviceLinks("rep-server", "10.43.0.8"),
    REP_PUBLIC_A: "1",
  };
  await using test = await setUp(environment);
  await test.set({ ...environment, REP_PUBLIC_A: "2" });
  const health = await (await test.ask("/rep/health")).json();
  assertEquals(health.variables, { public: 1, sensitive: 0, server: 0 });
  const lines = test.logged("rep.config.suspicious_name");
  assertEquals(lines.length, 1);
  assertEquals(String(lines[0]?.["detail"]).includes("rep-server"), true);
});

Deno.test("a variable of the store keeps its value under the name of a link", async () => {
  const { variables } = await evaluate(snapshotInput({
    environment: LINKS,
    stored: {
      environment: { REP_PUBLIC_PORT: LINKS["REP_PUBLIC_PORT"] ?? "" },
      version: null,
      newestWrite: 1,
    },
  }));
  assertEquals(variables.map(({ name }) => name), ["PORT"]);
});

Deno.test("service links of SERVER names prevent no write to the store", async () => {
  const environment = serviceLinks("rep-server", "10.43.0.7");
  const store = memoryStore();
  const writes = await setStoredVariables(store, { PORT: "1" }, {
    environment,
  });
  assertEquals(writes.map(({ name }) => name), ["PORT"]);
});

Deno.test("validate and inject see no service links, and warn once", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_PORT=8080\n",
  });
  const path = directory.at("app.env");
  const environment = {
    ...LINKS,
    ...serviceLinks("rep-gateway-health", "10.43.0.8"),
  };
  for (const args of [[], ["--env-file", path]]) {
    const { out, err } = await run(
      ["validate", "--json", ...args],
      environment,
    );
    const { valid, variables, warnings } = JSON.parse(out.join("\n"));
    const values = variables.map(({ name, value }: Record<string, string>) => [
      name,
      value,
    ]);
    assertEquals([valid, err], [true, []]);
    assertEquals(values, args.length > 0 ? [["PORT", "8080"]] : []);
    assertEquals(warnings.length, 1);
  }
  const { code, err } = await run(
    ["inject", "--config-js", directory.at("config.js")],
    environment,
  );
  assertEquals([code, err.length], [0, 1]);
});

Deno.test("the command serves no service links, and an env file has its own value under such a name", async () => {
  await using directory = await TempDirectory.make({
    "app.env": "REP_PUBLIC_PORT=8080\n",
  });
  await using command = await startCommand(
    ["--kv=:memory:", "--env-file", directory.at("app.env"), "--ofrep"],
    { ...LINKS, ...serviceLinks("rep-gateway-health", "10.43.0.8") },
  );
  const response = await fetch(`${command.url}/ofrep/v1/evaluate/flags`, {
    method: "POST",
    body: "{}",
  });
  const { flags } = await response.json();
  assertEquals(
    flags.map(({ key, value }: Record<string, string>) => [key, value]),
    [["PORT", "8080"]],
  );
  const warnings = command.output.filter((line) =>
    line.includes("enableServiceLinks")
  );
  assertEquals(warnings.length, 1);
  assertEquals(command.output.some((line) => line.includes("overrid")), false);
});
