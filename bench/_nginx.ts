import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { SubjectProcess } from "./_subject_process.ts";

/**
 * Starts nginx as one process on 127.0.0.1.
 *
 * @param locations The `location` blocks of its only server.
 * @param directory An existing directory for its files; a new one in it is used.
 */
export async function startNginx(
  program: string,
  { directory, locations, readyPath }: {
    directory: string;
    locations: string;
    readyPath: string;
  },
): Promise<SubjectProcess> {
  const port = findFreePort();
  const own = await Deno.makeTempDir({ dir: directory });
  const path = join(own, "nginx.conf");
  await Deno.writeTextFile(
    path,
    configurationOf({ directory: own, port, locations }),
  );
  return await SubjectProcess.start({
    program,
    args: ["-p", own, "-e", "stderr", "-c", path],
    port,
    readyPath,
  });
}

function configurationOf(
  { directory, port, locations }: {
    directory: string;
    port: number;
    locations: string;
  },
): string {
  const kinds = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
master_process off; # one process, as the user who started it
pid ${directory}/nginx.pid;
error_log stderr crit;
events { worker_connections 2048; }
http {
  ${kinds.map((kind) => `${kind}_temp_path ${directory}/${kind};`).join(" ")}
  types { text/html html; text/javascript js; application/json json; }
  access_log off;
  keepalive_requests 1000000000;
  server {
    listen 127.0.0.1:${port};
    ${locations}
  }
}
`;
}
