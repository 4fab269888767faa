import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { stdFlags } from "../tools/std.ts";
import { finishedResponse } from "./_floor_server.ts";
import { ASSET_PATH, type Site } from "./_site.ts";
import { SubjectProcess } from "./_subject_process.ts";

/** Starts the command of this project. */
export async function startCommand(
  args: readonly string[],
  port: number = findFreePort(),
  readyPath = "/rep/health",
): Promise<SubjectProcess> {
  const own = ["--hostname", "127.0.0.1", "--port", String(port)];
  return await startDeno("main.ts", [...own, ...args], port, readyPath);
}

/** Starts it with the variables of a site. */
export async function startGateway(
  { envFile }: Site,
  args: readonly string[],
): Promise<SubjectProcess> {
  return await startCommand(["--env-file", envFile, ...args]);
}

/** Starts the floor that sends the bytes of a response. */
export async function startFinished(
  site: Site,
  response: Response,
): Promise<SubjectProcess> {
  const path = join(site.root, "finished.json");
  const finished = await finishedResponse(response);
  await Deno.writeTextFile(path, JSON.stringify(finished));
  return await startFloor("bytes", path, "/", finished.status);
}

/** Starts the floor that passes the responses of an upstream through. */
export async function startPassThrough(
  upstream: string,
): Promise<SubjectProcess> {
  return await startFloor("node", upstream, ASSET_PATH);
}

/** Starts the upstream of the proxied rows, which sends one of the files of a site. */
export async function startUpstream(
  site: Site,
  path: string,
): Promise<SubjectProcess> {
  const isPage = path !== ASSET_PATH;
  const file = join(site.directory, isPage ? "index.html" : path);
  const type = isPage ? "text/html" : "text/javascript";
  const headers = { "content-type": type };
  return await startFinished(
    site,
    new Response(await Deno.readFile(file), { headers }),
  );
}

/** Starts the floor of event streams. */
export async function startBareStreams(): Promise<SubjectProcess> {
  return await startFloor("streams", "", "/ready");
}

/** Starts the floor of a start. */
export async function startHello(): Promise<SubjectProcess> {
  const port = findFreePort();
  return await startDeno("bench/_hello_server.ts", [String(port)], port, "/");
}

async function startFloor(
  kind: string,
  argument: string,
  readyPath: string,
  readyStatus?: number,
): Promise<SubjectProcess> {
  const port = findFreePort();
  const args = [String(port), kind, argument];
  const module = "bench/_floor_server.ts";
  return await startDeno(module, args, port, readyPath, readyStatus);
}

/** Starts a module in Deno, which is ready when this port answers. */
export async function startDeno(
  module: string,
  args: readonly string[],
  port: number,
  readyPath: string,
  readyStatus = 200,
): Promise<SubjectProcess> {
  const run = ["run", "--quiet", ...await stdFlags(), "-A", module, ...args];
  return await SubjectProcess.start({
    program: Deno.execPath(),
    args: run,
    port,
    readyPath,
    readyStatus,
  });
}
