import { IMPORT_FLAGS, importFlags } from "./_import_flags.ts";
import { isLoopbackOnly } from "./_go_gateway.ts";
import { findOnMachine, type Peers } from "./_programs.ts";

/** Finds the programs of others; says which are missing. */
export async function findPeers(
  skip: (reason: string) => void,
): Promise<Peers> {
  const find = async (variable: string, name: string) => {
    const program = await findOnMachine(variable, name);
    if (program === undefined) {
      skip(`${name}: it is not on the PATH, and ${variable} does not name it`);
    }
    return program;
  };
  const goGateway = await find("BENCH_GO_GATEWAY", "rep-gateway");
  const isIsolated = await isLoopbackOnly();
  if (goGateway !== undefined && !isIsolated) {
    skip(
      "rep-gateway: it listens on all interfaces, and there is no namespace for it",
    );
  }
  return {
    goGateway: isIsolated ? goGateway : undefined,
    mercure: await find("BENCH_MERCURE", "mercure"),
    nginx: await find("BENCH_NGINX", "nginx"),
  };
}

/**
 * Runs the same command again, in a network namespace of its own that has only the loopback interface: the Go gateway
 * listens on all interfaces.
 *
 * @returns Whether it ran; `false` if this process is in such a namespace already, or cannot create one.
 */
export async function runIsolated(args: readonly string[]): Promise<boolean> {
  if (await isLoopbackOnly() || !await canIsolate()) return false;
  const flags = await importFlags();
  const command = [
    Deno.execPath(),
    "run",
    ...flags,
    "-A",
    "bench/main.ts",
    ...args,
  ];
  const { code } = await new Deno.Command("unshare", {
    args: [
      ...namespaces(),
      "sh",
      "-c",
      'ip link set lo up && exec "$@"',
      "sh",
      ...command,
    ],
    cwd: new URL("..", import.meta.url),
    env: { [IMPORT_FLAGS]: flags.join(" ") },
  }).spawn().status;
  if (code !== 0) Deno.exitCode = code;
  return true;
}

/** Users other than root need a user namespace as well. */
function namespaces(): string[] {
  return Deno.uid() === 0 ? ["--net"] : ["--user", "--map-root-user", "--net"];
}

async function canIsolate(): Promise<boolean> {
  try {
    const args = [...namespaces(), "sh", "-c", "ip link set lo up"];
    return (await new Deno.Command("unshare", {
      args,
      stdout: "null",
      stderr: "null",
    }).output()).success;
  } catch {
    return false; // unshare(1) is not installed: it exists on Linux only
  }
}
