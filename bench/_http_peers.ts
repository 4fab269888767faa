import { startGoGateway } from "./_go_gateway.ts";
import { startStaticNginx } from "./_http_subjects.ts";
import type { HttpWork } from "./_http_work.ts";
import { startNginx } from "./_nginx.ts";
import type { BenchContext } from "./_programs.ts";
import type { Subject } from "./_row.ts";
import { ASSET_PATH, type Site } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";

/** What the peers of a row are started from. */
interface HttpPeerOptions {
  readonly work: HttpWork;
  readonly site: Site;
  /** The peers are added to these. */
  readonly servers: Partial<Record<Subject, SubjectProcess>>;
  readonly upstream: SubjectProcess | undefined;
  /** Ends them. */
  readonly stack: AsyncDisposableStack;
  readonly context: BenchContext;
}

/** Starts the peers that can do the work of a row. */
export async function addHttpPeers(
  { work, site, servers, upstream, stack, context }: HttpPeerOptions,
): Promise<void> {
  const { goGateway, nginx } = context.peers;
  if (goGateway !== undefined) {
    servers["Go gateway"] = stack.use(
      await startGoGateway(goGateway, site, upstream),
    );
  }
  if (nginx === undefined || work.path.startsWith("/rep/")) return;
  servers.nginx = stack.use(
    await startNginxFor(nginx, site, { path: work.path, upstream }),
  );
}

async function startNginxFor(
  nginx: string,
  site: Site,
  { path, upstream }: { path: string; upstream: SubjectProcess | undefined },
): Promise<SubjectProcess> {
  const script = `<script type="application/json">${
    "x".repeat(PAYLOAD_BYTES)
  }</script></head>`;
  const insert = path === ASSET_PATH ? "" : `sub_filter '</head>' '${script}';`;
  if (upstream === undefined) {
    return await startStaticNginx(nginx, site, insert);
  }
  const pass =
    `proxy_pass http://127.0.0.1:${upstream.port}; proxy_http_version 1.1; proxy_set_header Connection "";`;
  const locations = `location / { ${pass} ${insert} }`;
  return await startNginx(nginx, {
    directory: site.root,
    locations,
    readyPath: "/",
  });
}

/** About as much as the gateway inserts. */
const PAYLOAD_BYTES = 1_000;
