import { assertEquals, assertInstanceOf, assertThrows } from "@std/assert";
import { anyHostname } from "../../../src/command/start/any_hostname.ts";
import { findFreePort } from "../../../tools/free_port.ts";
import {
  commandArgs,
  listeningUrl,
  type LogLine,
  RunningCommand,
} from "../../_command.ts";
import { captureLog } from "../../_gateway.ts";

type Listen = typeof Deno.listen;

/** Returns the hostname, and the reasons that were logged. */
function resolve(port: number, listen?: Listen) {
  const { log, lines } = captureLog();
  const hostname = anyHostname(port, log, listen);
  const details = lines.map(({ msg, detail }) => `${msg}: ${detail}`);
  return { hostname, details };
}

/** A system whose sockets can be bound, except those of IPv6 if there is an error. */
function system(error?: Error) {
  const open = new Set<string>();
  function listen({ hostname = "" }: Deno.ListenOptions) {
    if (hostname === "::" && error !== undefined) throw error;
    open.add(hostname);
    const close = () => open.delete(hostname);
    const listener = { addr: { port: 4711 }, close, [Symbol.dispose]: close };
    return listener as unknown as Deno.TcpListener;
  }
  return { open, listen: listen as unknown as Listen };
}

const EXCLUDED =
  "an IPv6 socket excludes IPv4 here; on Linux, set net.ipv6.bindv6only=0";

/** How a socket of IPv6 fails while the port is held on IPv4, and why only IPv4 is served. */
const FAILURES: readonly [error: Error | undefined, reason?: string][] = [
  [new Deno.errors.AddrInUse("in use")],
  [undefined, EXCLUDED],
  [new Deno.errors.AddrNotAvailable("no such address"), "no such address"],
  [
    new Error("Address family not supported by protocol (os error 97)"),
    "Address family not supported by protocol (os error 97)",
  ],
];

for (const [error, reason] of FAILURES) {
  Deno.test({
    name: `anyHostname() finds ${reason ?? "one socket for both families"}`,
    ignore: Deno.build.os === "darwin" && reason === EXCLUDED,
    fn() {
      const { open, listen } = system(error);
      const expected = reason === undefined
        ? { hostname: "::", details: [] }
        : { hostname: "0.0.0.0", details: [warning(8080, reason)] };
      assertEquals(resolve(8080, listen), expected);
      assertEquals(open.size, 0);
    },
  });
}

function warning(port: number, reason: string): string {
  return `rep.start.warning: port ${port} is served over IPv4 only: ${reason}`;
}

Deno.test("anyHostname() names the address of a port that is taken, whatever else is free", () => {
  using taken = Deno.listen({ hostname: "0.0.0.0", port: 0 });
  const { port } = taken.addr;
  const { message, cause } = assertThrows(() => resolve(port), Error);
  assertInstanceOf(cause, Deno.errors.AddrInUse);
  assertEquals(message.startsWith(`Cannot listen on 0.0.0.0:${port}: `), true);
});

/** Permissions, and the result for port 8080: without any, Deno asks for the one that it has always asked for. */
const PERMISSIONS: readonly [Deno.PermissionOptions, string, string?][] = [
  [{ net: ["[::]:8080"] }, "::"],
  [{ net: ["0.0.0.0:8080"] }, "0.0.0.0", "expected --allow-net=[::]:8080"],
  [{ net: false }, "0.0.0.0", "expected --allow-net=[::]:8080"],
];

for (const [permissions, hostname, reason] of PERMISSIONS) {
  Deno.test({
    name: `anyHostname() is ${hostname} with ${JSON.stringify(permissions)}`,
    permissions,
    fn() {
      const details = reason === undefined ? [] : [warning(8080, reason)];
      assertEquals(resolve(8080), { hostname, details });
    },
  });
}

Deno.test("without --hostname, both ports serve both families, and IPv4 addresses are IPv4 addresses in the log", async () => {
  const port = findFreePort();
  const healthPort = findFreePort();
  const args = commandArgs([
    `--port=${port}`,
    `--health-port=${healthPort}`,
    "--kv=:memory:",
    "--access-log",
  ]);
  await using command = await RunningCommand.start(
    { args, env: {} },
    listeningUrl,
  );
  assertEquals(command.url, `http://[::]:${port}`);
  for (const host of ["127.0.0.1", "[::1]"]) {
    for (const url of [`${host}:${port}/a`, `${host}:${healthPort}/livez`]) {
      const response = await fetch(`http://${url}`);
      await response.body?.cancel();
      assertEquals([url, response.status], [
        url,
        url.endsWith("a") ? 404 : 200,
      ]);
    }
  }
  const clients: unknown[] = [];
  for (const client of ["127.0.0.1", "::1"]) {
    const isOf = (line: LogLine) =>
      line.msg === "rep.request" && line["client_ip"] === client;
    const { path } = await command.logged(isOf);
    clients.push([client, path]);
  }
  assertEquals(clients, [["127.0.0.1", "/a"], ["::1", "/a"]]);
});

/** A network of its own, in which IPv6 sockets exclude IPv4. It takes the rights of root. */
const UNSHARE =
  'ip link set lo up && echo 1 > /proc/sys/net/ipv6/bindv6only && exec "$0" "$@"';

Deno.test({
  name: "without --hostname, IPv4 is served where IPv6 sockets exclude it",
  ignore: Deno.build.os !== "linux" || Deno.uid() !== 0,
  async fn() {
    const args = commandArgs(["--port=8080", "--kv=:memory:"]);
    await using command = await RunningCommand.start({
      program: "unshare",
      args: ["-n", "sh", "-c", UNSHARE, Deno.execPath(), ...args],
      env: {},
    }, listeningUrl);
    assertEquals(command.url, "http://0.0.0.0:8080");
    await command.printed(`IPv4 only: ${EXCLUDED}`);
  },
});

Deno.test("without --hostname, a permission for 0.0.0.0 is enough", async () => {
  const port = findFreePort();
  const net = `--allow-net=0.0.0.0:${port}`;
  const args = commandArgs([`--port=${port}`, "--kv=:memory:"], [net]);
  await using command = await RunningCommand.start(
    { args, env: {} },
    listeningUrl,
  );
  assertEquals(command.url, `http://0.0.0.0:${port}`);
  await command.printed(`expected --allow-net=[::]:${port}`);
});
