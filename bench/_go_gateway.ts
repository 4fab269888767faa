import { findFreePort } from "../tools/free_port.ts";
import { SubjectProcess } from "./_subject_process.ts";
import type { Site } from "./_site.ts";

/**
 * Starts REP's Go gateway. It listens on all interfaces, which is why it may only run in a network namespace that has
 * no interface but the loopback.
 *
 * @throws {Error} If there are other interfaces.
 */
export async function startGoGateway(
  program: string,
  { directory, envFile }: Site,
  upstream?: SubjectProcess,
): Promise<SubjectProcess> {
  if (!await isLoopbackOnly()) {
    throw new Error(
      "Cannot start the Go gateway: expected a network namespace with the loopback interface only",
    );
  }
  const port = findFreePort();
  const content = upstream === undefined
    ? ["-mode", "embedded", "-static-dir", directory]
    : ["-mode", "proxy", "-upstream", `127.0.0.1:${upstream.port}`];
  const changes = ["-hot-reload", "-hot-reload-mode", "signal"];
  const args = [
    "-port",
    String(port),
    "-env-file",
    envFile,
    ...content,
    ...changes,
  ];
  return await SubjectProcess.start({
    program,
    args,
    port,
    readyPath: "/rep/health",
  });
}

/** Whether this process can reach nothing but the machine it runs on, nor be reached by others. */
export async function isLoopbackOnly(): Promise<boolean> {
  try {
    return hasLoopbackOnly(await Deno.readTextFile("/proc/net/dev"));
  } catch {
    return false; // there is no /proc: namespaces exist on Linux only
  }
}

/** @param text The contents of `/proc/net/dev`: two lines of headings, then one for each interface (proc(5)). */
export function hasLoopbackOnly(text: string): boolean {
  const [, , ...interfaces] = text.trimEnd().split("\n");
  return interfaces.length > 0 &&
    interfaces.every((line) => line.trim().startsWith("lo:"));
}
