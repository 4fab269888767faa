import { dirname, join } from "@std/path";
import { findProgram } from "../tools/find_program.ts";
import { findFreePort } from "../tools/free_port.ts";
import { ASSET_PATH, PAGE_PATH, type Site } from "./_site.ts";
import { SubjectProcess } from "./_subject_process.ts";

/** Returns the path of nginx, if it is installed; Debian has it in a folder that is not in every PATH. */
export async function findNginx(): Promise<string | undefined> {
  return await findProgram("nginx", ["/usr/sbin"]);
}

/** Starts nginx, if it is installed, on the files of a site. Its page is that of a gateway, with the values in it. */
export async function startNginxStatic(
  { root, directory }: Site,
  gateway: SubjectProcess,
): Promise<SubjectProcess | undefined> {
  const files = join(root, "nginx", "files");
  const page = await fetch(gateway.url + PAGE_PATH, {
    headers: { "accept-encoding": "identity" },
  });
  await Deno.mkdir(dirname(join(files, ASSET_PATH)), { recursive: true });
  await Deno.writeFile(join(files, "index.html"), await page.bytes());
  await Deno.copyFile(join(directory, ASSET_PATH), join(files, ASSET_PATH));
  const config = await readConfig("nginx_static.conf");
  return await startNginx(root, config, "/rep/health");
}

/** Starts nginx, if it is installed, as a proxy. */
export async function startNginxProxied(
  { root }: Site,
  upstream: SubjectProcess,
): Promise<SubjectProcess | undefined> {
  const config = await readConfig("nginx_proxied.conf");
  const text = config.replace("${UPSTREAM}", String(upstream.port));
  return await startNginx(root, text, ASSET_PATH);
}

/** Starts nginx on a directory, with a second port that says that it is ready. */
export async function startNginxFiles(
  root: string,
  directory: string,
  port: number,
  healthPort: number,
): Promise<SubjectProcess> {
  const program = await findNginx();
  if (program === undefined) {
    throw new Error("Cannot find nginx: expected Debian's package nginx-light");
  }
  const folder = join(root, `nginx-${port}`);
  await Deno.mkdir(folder, { recursive: true });
  const path = join(folder, "nginx.conf");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path temporary;`).join(" ");
  await Deno.writeTextFile(
    path,
    `daemon off; master_process off; pid nginx.pid; error_log stderr crit; events {}
http { access_log off; ${temporary} types { text/html html; text/javascript js; }
  server { listen 127.0.0.1:${port}; root ${directory}; }
  server { listen 127.0.0.1:${healthPort}; location / { return 200 ready; } } }`,
  );
  return await SubjectProcess.start({
    program,
    args: ["-e", "stderr", "-p", folder, "-c", path],
    port,
    readyPath: "/",
    readyStatus: 200,
  });
}

/** Starts nginx, if it is installed, as a cache of polls, with files in a folder of its own. */
export async function startNginxCached(
  folder: string,
  upstreamPort: number,
): Promise<SubjectProcess | undefined> {
  const config = await readConfig("nginx_cached.conf");
  const text = config.replace("${UPSTREAM}", String(upstreamPort));
  return await startNginx(folder, text, "/ready");
}

function readConfig(name: string): Promise<string> {
  return Deno.readTextFile(new URL(name, import.meta.url));
}

async function startNginx(
  root: string,
  config: string,
  readyPath: string,
): Promise<SubjectProcess | undefined> {
  const program = await findNginx();
  if (program === undefined) return undefined;
  const folder = join(root, "nginx");
  const path = join(folder, "nginx.conf");
  const port = findFreePort();
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(path, config.replace("${PORT}", String(port)));
  return await SubjectProcess.start({
    program,
    args: ["-e", "stderr", "-p", folder, "-c", path],
    port,
    readyPath,
    readyStatus: 200,
  });
}
