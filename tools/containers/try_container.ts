import { Container, until } from "./container.ts";
import type { Image } from "./images.ts";
import type { Podman } from "./podman.ts";

const MEMORY = "192m";

/** How docs/deploy.md and the Compose file run a container, with less memory. */
export const HARDENED = [
  "--read-only",
  "--cap-drop=all",
  "--security-opt=no-new-privileges",
  "--pids-limit=256",
  `--memory=${MEMORY}`,
  `--memory-swap=${MEMORY}`,
];

const VARIABLE = "REP_PUBLIC_GREETING=Hello";
const IN_PAGE = '"GREETING":"Hello"';
const SET = "NOTE=kept";
const SET_IN_PAGE = '"NOTE":"kept"';
const STORE = "--kv=/data/kv.sqlite3";

/** The user of our images. */
const USER = "65534";

/** @throws {Error} If two values differ. */
function expect(what: string, got: unknown, expected: unknown): void {
  const texts = [got, expected].map((value) => JSON.stringify(value));
  if (texts[0] === texts[1]) return;
  throw new Error(`${what}: expected ${texts[1]}, got ${texts[0]}`);
}

/** Its pattern, and what it is started with, need packages that are imported on demand. */
const MANIFEST = `version: "0.1.0"
variables:
  TITLE: { tier: public, pattern: "H.*", default: Hello }
`;
const ON_DEMAND = "--env=OTEL_DENO=true";
const UNREACHABLE_STORE = "--kv=postgres://gateway@127.0.0.1:9/app";

/** Starts a container of an image, and tries everything that docs/deploy.md promises of it. */
export async function tryContainer(
  podman: Podman,
  { tag, isHardened, runArgs, args }: Image,
  begin: (step: string) => void,
): Promise<void> {
  const common = ["--network=none", `--env=${VARIABLE}`, ...runArgs];
  const run = async (name: string, ...words: string[]) => {
    await podman.run("run", "--detach", `--name=${name}`, ...common, ...words);
    return new Container(podman, name);
  };
  const folder = await Deno.makeTempDir();
  await Deno.chmod(folder, 0o755);
  await Deno.writeTextFile(`${folder}/rep.yaml`, MANIFEST);
  const manifest = `--volume=${folder}:/etc/rep:ro`;
  const hardened = [...HARDENED, ON_DEMAND, manifest, `--volume=${tag}:/data`];
  const words = [tag, ...args, "--manifest=/etc/rep/rep.yaml"];
  let container: Container | undefined;
  try {
    begin("start");
    if (isHardened) {
      container = await run(tag, ...hardened, ...words, STORE, "--hot-reload");
      await tryHardened(container, begin);
    } else {
      container = await run(tag, tag, "--health-port=8081");
      await container.untilPageHas(IN_PAGE);
    }
    begin("SIGTERM");
    expect("the exit code", await container.stop(), 0);
    if (!isHardened) return;
    begin("PostgreSQL, whose library is in the image");
    container = await run("other", ...hardened, ...words, UNREACHABLE_STORE);
    await container.untilLogged("ECONNREFUSED");
  } catch (error) {
    const cause = await container?.log();
    throw new Error((error as Error).message, { cause });
  } finally {
    await podman.clear();
    await Deno.remove(folder, { recursive: true });
  }
}

/** The exit code of a process that was killed, by us or by the kernel. */
const KILLED = 137;

async function tryHardened(
  container: Container,
  begin: (step: string) => void,
): Promise<void> {
  await container.untilPageHas(IN_PAGE);
  begin("health check");
  await container.checkHealth();
  begin("no rights");
  await checkRights(await container.pid());

  begin("set");
  const opened = await container.readStream();
  const [, id = ""] = /^id: (\d+)$/m.exec(opened) ?? [];
  await container.runCommand("set", SET, STORE);
  const isSent = async () => {
    const stream = await container.readStream(id);
    return stream.includes('"NOTE"') || undefined;
  };
  await until("the event", isSent);

  const endings = [
    ["SIGTERM", () => container.stop(), 0],
    ["SIGKILL", () => container.kill(), KILLED],
    ["out of memory", () => container.exhaustMemory(), KILLED],
  ] as const;
  for (const [name, end, expected] of endings) {
    begin(name);
    expect("the exit code", await end(), expected);
    await container.start();
    await container.untilPageHas(SET_IN_PAGE);
    await until("the event again", isSent);
  }
}

/** Checks the rights that the kernel gives the first process, and its root. */
async function checkRights(pid: string): Promise<void> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  const field = (name: string) =>
    new RegExp(`^${name}:\\t(.*)$`, "m").exec(status)?.[1];
  expect("its name", field("Name"), "deno");
  expect("its user", field("Uid")?.split("\t"), [USER, USER, USER, USER]);
  expect("its capabilities", field("CapEff"), "0000000000000000");
  expect("no new privileges", field("NoNewPrivs"), "1");
  const mounts = await Deno.readTextFile(`/proc/${pid}/mounts`);
  expect("its root", /^\S+ \/ \S+ (r[ow]),/m.exec(mounts)?.[1], "ro");
}
