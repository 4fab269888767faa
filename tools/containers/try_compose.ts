import { dirname, join } from "@std/path";
import { cachedFolder } from "../cached_folder.ts";
import { Container, until } from "./container.ts";
import { type Podman, run } from "./podman.ts";

const EXAMPLE = join(import.meta.dirname ?? ".", "../../examples/docker");

/** It has no network: its requests come from within. Nothing else is changed. */
const OVERRIDE = "services: { gateway: { network_mode: none } }\n";
const SECRET = "REP_SENSITIVE_ANALYTICS_KEY=UA-12345-1\n";
const USER = 65534;

/** Debian's version of it knows too little of Compose. */
const COMPOSE = "podman-compose==1.6.0";

async function install(folder: string): Promise<void> {
  await run("pip", ["install", "--quiet", "--target", folder, COMPOSE]);
}

/**
 * Starts the service of our Compose file, with the files that docs/deploy.md says must exist.
 *
 * @param folder Contains the build of an app.
 */
export async function tryCompose(
  podman: Podman,
  folder: string,
  begin: (step: string) => void,
): Promise<void> {
  await run("cp", ["-r", `${EXAMPLE}/.`, folder]);
  const override = join(folder, "override.yaml");
  await Deno.writeTextFile(override, OVERRIDE);
  const key = crypto.getRandomValues(new Uint8Array(32)).toBase64();
  await addSecret(join(folder, "secrets/master_key"), key);
  await addSecret(join(folder, "secrets/secrets.env"), SECRET);

  const python = await cachedFolder(COMPOSE.replace("==", "-"), install);
  const compose = (...args: string[]) =>
    run("python3", [
      "-m",
      "podman_compose",
      `--podman-path=${podman.program}`,
      "--file=compose.yaml",
      `--file=${override}`,
      ...args,
    ], { cwd: folder, env: { PYTHONPATH: python } });
  begin("up");
  await compose("up", "--detach", "--no-build");
  const container = new Container(podman, "app_gateway_1");
  const configFile = join(folder, "config/app.env");
  try {
    await container.untilPageHas("</script>");
    await container.checkHealth();

    begin("a secret");
    await container.request(8080, "/rep/session-key");
    const page = await container.request(8080, "/");
    if (page.includes("UA-12345-1")) throw new Error("a secret in the page");
    if (!page.includes('"sensitive":"')) throw new Error("no secret");

    begin("an edit of the env file");
    const text = await Deno.readTextFile(configFile);
    await Deno.writeTextFile(configFile, `${text}REP_PUBLIC_NOTE=edited\n`);
    await container.untilPageHas('"NOTE":"edited"');

    begin("SIGKILL, and a start without help");
    const pid = await container.pid();
    Deno.kill(Number(pid), "SIGKILL");
    const isNew = async () => await container.pid() !== pid || undefined;
    await until("another process", isNew);
    await container.untilPageHas('"NOTE":"edited"');

    begin("down");
    await compose("down");
  } catch (error) {
    throw new Error((error as Error).message, { cause: await container.log() });
  }
}

/** Writes a file that only the container's user can read. */
async function addSecret(path: string, text: string): Promise<void> {
  await Deno.mkdir(dirname(path), { recursive: true });
  await Deno.writeTextFile(path, text);
  await Deno.chown(path, USER, USER);
  await Deno.chmod(path, 0o400);
}
