import { join } from "@std/path";
import { finishedResponse } from "./_floor_server.ts";
import { importFlags } from "./_import_flags.ts";
import { startNginx } from "./_nginx.ts";
import { ASSET_PATH, type Site } from "./_site.ts";
import { findFreePort } from "../tools/free_port.ts";
import { type SubjectCommand, SubjectProcess } from "./_subject_process.ts";

/** Starts the command of this project. */
export async function startCommand(
  args: readonly string[],
): Promise<SubjectProcess> {
  const port = findFreePort();
  const own = ["--hostname", "127.0.0.1", "--port", String(port)];
  return await startDeno("main.ts", [...own, ...args], {
    port,
    readyPath: "/rep/health",
  });
}

/** Starts it with the variables of a site. */
export function startGateway(
  { envFile }: Site,
  args: readonly string[],
): Promise<SubjectProcess> {
  return startCommand(["--env-file", envFile, ...args]);
}

/** Starts the floor that sends the bytes of a response. */
export async function startFinished(
  site: Site,
  response: Response,
): Promise<SubjectProcess> {
  const path = join(site.root, "finished.json");
  const finished = await finishedResponse(response);
  await Deno.writeTextFile(path, JSON.stringify(finished));
  return await startFloor("bytes", path, {
    readyPath: "/",
    readyStatus: finished.status,
  });
}

/** Starts a floor that passes the responses of an upstream through. */
export async function startPassThrough(
  kind: "node" | "fetch",
  upstream: SubjectProcess,
): Promise<SubjectProcess> {
  return await startFloor(kind, `http://127.0.0.1:${upstream.port}`, {
    readyPath: ASSET_PATH,
  });
}

/** Starts the upstream of the proxied rows: nginx, or a floor, if it is not installed, which sends one of the files. */
export async function startUpstream(
  site: Site,
  path: string,
  nginx: string | undefined,
): Promise<SubjectProcess> {
  if (nginx !== undefined) return await startStaticNginx(nginx, site);
  const isPage = path !== ASSET_PATH;
  const body = await Deno.readFile(
    join(site.directory, isPage ? "index.html" : path),
  );
  const type = isPage ? "text/html" : "text/javascript";
  return await startFinished(
    site,
    new Response(body, { headers: { "content-type": type } }),
  );
}

/** Starts an nginx that serves the site's files. */
export async function startStaticNginx(
  program: string,
  site: Site,
  directives = "",
): Promise<SubjectProcess> {
  const locations = `root ${site.directory}; location / { ${directives} }`;
  return await startNginx(program, {
    directory: site.root,
    locations,
    readyPath: "/",
  });
}

/** Starts the floor of event streams. */
export async function startBareStreams(): Promise<SubjectProcess> {
  return await startFloor("streams", "", { readyPath: "/ready" });
}

type Ready = Pick<SubjectCommand, "readyPath" | "readyStatus">;

async function startFloor(
  kind: string,
  argument: string,
  ready: Ready,
): Promise<SubjectProcess> {
  const port = findFreePort();
  return await startDeno("bench/_floor_server.ts", [
    String(port),
    kind,
    argument,
  ], { ...ready, port });
}

/** Starts a module of this project that listens on a port. */
export async function startDeno(
  module: string,
  args: readonly string[],
  ready: Ready & Pick<SubjectCommand, "port">,
): Promise<SubjectProcess> {
  const all = ["run", "--quiet", ...await importFlags(), "-A", module, ...args];
  return await SubjectProcess.start({
    program: Deno.execPath(),
    args: all,
    ...ready,
  });
}
