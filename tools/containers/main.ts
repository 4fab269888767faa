/**
 * Builds all our images, and tries their containers: as an unprivileged user, without capabilities, on a read-only file
 * system, in 192 MiB, with a database in a volume; through SIGTERM, SIGKILL and want of memory. Then it tries the service
 * of Compose.
 *
 *     deno task check:containers             # minutes, and some hundred MB from Debian and npm
 *     deno task check:containers --only node # the images whose names contain this
 *
 * It needs root on a Debian with `podman`, `buildah`, `runc`, `debootstrap`, `curl`, npm and pip, but no registry of images:
 * base images are made of the packages of Debian and npm. What has not been published comes from this checkout.
 * It prints a table, and exits with 1 if something does not work.
 */
import { parseArgs } from "@std/cli/parse-args";
import { join } from "@std/path";
import { cachedFolder } from "../cached_folder.ts";
import { makeBaseImage } from "./base_images.ts";
import { type Image, ourImages } from "./images.ts";
import { Podman } from "./podman.ts";
import { Registry } from "./registry.ts";
import { tryCompose } from "./try_compose.ts";
import { HARDENED, tryContainer } from "./try_container.ts";

/** What was tried of an image, with the result of each step. */
interface Outcome {
  readonly name: string;
  readonly steps: readonly string[];
  /** Why the next step failed; `undefined` if all steps worked. */
  readonly failure: string | undefined;
}

/** Calls a function that names each step before it begins. */
async function outcomeOf(
  name: string,
  tryAll: (begin: (step: string) => void) => Promise<void>,
): Promise<Outcome> {
  const steps: string[] = [];
  try {
    await tryAll((step) => steps.push(step));
    return { name, steps, failure: undefined };
  } catch (error) {
    const { message, cause } = error as Error;
    const failure = `${steps.pop()}: ${message} ${cause ?? ""}`;
    return { name, steps, failure };
  }
}

/** Builds an image, after its base. */
async function build(
  podman: Podman,
  { dockerfile, context, tag }: Image,
  registry: Registry,
): Promise<void> {
  const text = await Deno.readTextFile(dockerfile);
  const [from = "", base = ""] = /^FROM (\S+)$/m.exec(text) ?? [];
  if (base.includes(":")) await makeBaseImage(podman, base); // others are ours
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "Dockerfile");
    const named = `${from}\nENV JSR_URL=${registry.jsrUrl}`;
    await Deno.writeTextFile(file, text.replace(from, named));
    const npmrc = join(folder, ".npmrc");
    await Deno.writeTextFile(npmrc, `@rep:registry=${registry.url}/\n`);
    await podman.run(
      "build",
      "--isolation=chroot",
      "--network=host",
      "--format=docker", // the other format has no health check
      "--no-cache",
      `--volume=${npmrc}:/root/.npmrc:ro`,
      `--file=${file}`,
      `--tag=${tag}`,
      context,
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function print(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
}

async function main(args: string[]): Promise<void> {
  const { only = "" } = parseArgs(args, { string: ["only"] });
  const cache = await cachedFolder("containers", () => Promise.resolve());
  const podman = await Podman.open(cache);
  const folder = await Deno.makeTempDir();
  const outcomes: Outcome[] = [];
  try {
    await podman.clear(); // what an interrupted run has left
    await using registry = await Registry.start(join(folder, "npm"));
    for (const image of await ourImages(folder)) {
      if (!image.name.includes(only)) continue;
      outcomes.push(
        await outcomeOf(image.name, async (begin) => {
          begin("build");
          await build(podman, image, registry);
          await tryContainer(podman, image, begin);
        }),
      );
    }
    if ("compose".includes(only)) {
      outcomes.push(
        await outcomeOf(
          "examples/docker/compose.yaml",
          (begin) => tryCompose(podman, folder, begin),
        ),
      );
    }
  } finally {
    await podman.clear();
    await Deno.remove(folder, { recursive: true });
  }
  print(`Run with: ${HARDENED.join(" ")}`);
  for (const { name, steps, failure } of outcomes) {
    print(`${name}: ${steps.join("; ")}: ${failure ? "" : "all "}work`);
    if (failure !== undefined) print(`  FAILS: ${failure}`);
  }
  if (outcomes.some(({ failure }) => failure !== undefined)) Deno.exit(1);
}

if (import.meta.main) await main(Deno.args);
