import { assertEquals } from "@std/assert";
import { startCommand } from "./_command.ts";
import { readSse } from "./_sse.ts";

/** The environment on Deno Deploy, for an application without a database. */
const DEPLOY = {
  DENO_DEPLOY: "true",
  DENO_DEPLOYMENT_ID: "b0f3a1",
  DENO_TIMELINE: "production",
  DENO_KV_REQUIRES_DISTRIBUTED_DATABASE: "error",
};

Deno.test("the command runs on Deno Deploy without files and without a database, and warns of the consequences", async () => {
  const env = { ...DEPLOY, REP_PUBLIC_A: "1", REP_GATEWAY_HOT_RELOAD: "true" };
  const permissions = [
    "--allow-net",
    "--allow-env",
    "--deny-read",
    "--deny-write",
  ];
  await using command = await startCommand([], env, permissions);
  const { variables } = await (await fetch(`${command.url}/rep/health`)).json();
  assertEquals(variables, { public: 1, sensitive: 0, server: 0 });
  const warnings = command.output.map((line) => JSON.parse(line)).filter((
    { level },
  ) => level !== "INFO");
  assertEquals(warnings.map(({ msg }) => msg), [
    "rep.store.memory",
    "rep.start.warning",
    "rep.start.warning",
  ]);

  const stream = readSse(await fetch(`${command.url}/rep/changes`));
  await stream.pull();
  command.signal("SIGINT");
  assertEquals(await stream.next(), undefined);
  assertEquals(await command.ended(), 0);
});

/** Requests a session key with these headers, and returns the client address in the audit log. */
async function auditedClient(
  headers: HeadersInit,
  env: Record<string, string>,
): Promise<unknown> {
  await using command = await startCommand(["--kv", ":memory:"], {
    ...DEPLOY,
    REP_SENSITIVE_A: "1",
    ...env,
  });
  const response = await fetch(`${command.url}/rep/session-key`, { headers });
  await response.body?.cancel();
  assertEquals(response.status, 200);
  return (await command.logged(({ msg }) => msg === "rep.session_key.issued"))
    .client_ip;
}

const HEADERS = {
  "x-deno-client-address": "203.0.113.9:50000",
  "x-forwarded-for": "198.51.100.7",
};

Deno.test("the command uses the client address that the runtime of Deno Deploy provides", async () => {
  assertEquals(
    await auditedClient(HEADERS, { DENO_TRUST_PROXY_HEADERS: "1" }),
    "203.0.113.9",
  );
});

Deno.test("the command reads the client address from no header that a client can send", async () => {
  assertEquals(await auditedClient(HEADERS, {}), "127.0.0.1");
});
