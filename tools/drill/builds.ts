import { Addresses } from "./addresses.ts";
import type { Scene } from "./faults.ts";
import type { HaProxy } from "./proxy.ts";
import type { Replica } from "./replica.ts";
import { until } from "./waiting.ts";
import { Visitors } from "./visitors.ts";
import { VARIABLES } from "./world.ts";

const CHUNKS = 20;
/** How long the visitors go on before the update and after it. */
const AROUND_SECONDS = 2;

/**
 * Two gateways with `--keep-builds` go from one build to the next, one after the other, while visitors load pages. Half
 * way through, the gateway that still has the old build is killed, and comes back as it was.
 */
export async function rolledBuilds(scene: Scene): Promise<void> {
  const { at, beside, hold, named, begin, startProxy } = scene;
  await writeBuild(at("build-1"), 1);
  await writeBuild(at("build-2"), 2);
  await using first = beside(gatewayOf(scene, "first"));
  await using second = beside(gatewayOf(scene, "second"));
  for (const replica of [first, second]) {
    await lead(scene, replica, 1);
    await replica.start();
  }
  await using proxy = await startProxy("builds", first, second);
  const authority = await scene.certificates.authority();
  await using addresses = await Addresses.open(proxy.port, authority);
  const { url, client } = addresses;
  const visitors = new Visitors({ url, client, random: scene.random });
  await using _watched = scene.watchBeside(visitors, first, second);
  await hold(AROUND_SECONDS, AROUND_SECONDS);
  begin();
  await first.stop();
  await lead(scene, first, 2);
  await startBehind(scene, proxy, first, "a");
  await second.kill();
  await hold(1, 1);
  await startBehind(scene, proxy, second, "b");
  await second.stop();
  await lead(scene, second, 2);
  await startBehind(scene, proxy, second, "b");
  await hold(AROUND_SECONDS, AROUND_SECONDS);
  await named();
}

function gatewayOf({ at }: Scene, name: string) {
  return {
    name: `${name} of the builds`,
    kv: at("builds.sqlite3"),
    variables: VARIABLES,
    content: ["--static-dir", at(`static-${name} of the builds`)],
    flags: [
      ...["--immutable", "assets/*", "--keep-builds", at("kept-builds")],
    ],
  };
}

/** Makes the directory of a replica that of a build. */
async function lead(
  { at }: Scene,
  { name }: Replica,
  build: number,
): Promise<void> {
  const link = at(`static-${name}`);
  await Deno.symlink(at(`build-${build}`), `${link}.new`);
  await Deno.rename(`${link}.new`, link);
}

/** Starts a replica, and waits until HAProxy uses it. */
async function startBehind(
  { signal }: Scene,
  { up }: HaProxy,
  replica: Replica,
  server: string,
): Promise<void> {
  const what = `HAProxy to find ${replica.name}`;
  await until(() => !up.has(server), { what: `${what} down`, signal });
  await replica.start();
  await until(() => up.has(server), { what: `${what} up`, signal });
}

/** Writes a page that lists its chunks, the entry first. */
async function writeBuild(directory: string, build: number): Promise<void> {
  await Deno.mkdir(`${directory}/assets`, { recursive: true });
  let page = "<!doctype html><html><head>";
  for (let index = 0; index < CHUNKS; index++) {
    const path = `assets/chunk-${index}-${build}.js`;
    page += `<script src="/${path}" defer></script>`;
    await Deno.writeTextFile(`${directory}/${path}`, `// ${path}\n`);
  }
  await Deno.writeTextFile(`${directory}/index.html`, `${page}</head></html>`);
}
