import { findFreePort } from "../tools/free_port.ts";
import type { Site } from "./_site.ts";
import { SubjectProcess } from "./_subject_process.ts";

/**
 * Starts REP's Go gateway, if BENCH_GO_GATEWAY names it. It listens on all interfaces, which is why it may only run in
 * a network namespace that has no interface but the loopback.
 *
 * @throws {Error} If there are other interfaces.
 */
export async function startGoGateway(
  { directory, envFile }: Site,
  upstream?: SubjectProcess,
): Promise<SubjectProcess | undefined> {
  const program = Deno.env.get("BENCH_GO_GATEWAY");
  if (!program) return undefined;
  if (!hasLoopbackOnly(await Deno.readTextFile("/proc/net/dev"))) {
    throw new Error(
      "Cannot start the Go gateway: expected a network namespace with the loopback interface only",
    );
  }
  const port = findFreePort();
  const content = upstream === undefined
    ? ["-mode", "embedded", "-static-dir", directory]
    : ["-mode", "proxy", "-upstream", `127.0.0.1:${upstream.port}`];
  const changes = ["-hot-reload", "-hot-reload-mode", "signal"];
  const own = ["-port", String(port), "-env-file", envFile];
  return await SubjectProcess.start({
    program,
    args: [...own, ...content, ...changes],
    port,
    readyPath: "/rep/health",
    readyStatus: 200,
  });
}

/** @param text The contents of `/proc/net/dev`: two lines of headings, then one for each interface (proc(5)). */
export function hasLoopbackOnly(text: string): boolean {
  const interfaces = text.trimEnd().split("\n").slice(2);
  if (interfaces.length === 0) return false;
  return interfaces.every((line) => line.trim().startsWith("lo:"));
}
