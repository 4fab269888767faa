import { join } from "@std/path";

const ROOT = join(import.meta.dirname ?? ".", "../..");
const PAGE = "<!doctype html><head><title>App</title></head>\n";

/** An image of ours. */
export interface Image {
  /** Where its Dockerfile is. */
  readonly name: string;
  /** Its name for podman. */
  readonly tag: string;
  readonly dockerfile: string;
  /** What is sent to the builder. */
  readonly context: string;
  /** Whether it runs without root, and on a read-only file system. */
  readonly isHardened: boolean;
  /** Options of `podman run`, and of the gateway. */
  readonly runArgs: readonly string[];
  readonly args: readonly string[];
}

/**
 * Returns all images that this repository describes.
 *
 * @param folder Where an app is written, as users have it: `dist`, and a copy of the example beside it.
 */
export async function ourImages(folder: string): Promise<Image[]> {
  const dist = join(folder, "dist");
  await Deno.mkdir(dist, { recursive: true });
  await Deno.writeTextFile(join(dist, "index.html"), PAGE);
  const mount = `--volume=${dist}:/app/dist:ro`;
  const none = { runArgs: [], args: [] };
  const readme = join(folder, "Dockerfile.readme");
  await Deno.writeTextFile(readme, await dockerfileIn("README.md"));
  const based = join(folder, "Dockerfile.based");
  await Deno.writeTextFile(based, await dockerfileIn("docs/deploy.md"));
  const example = join(ROOT, "examples/docker");
  return [
    {
      name: "Dockerfile",
      tag: "rep-gateway",
      dockerfile: join(ROOT, "Dockerfile"),
      context: ROOT,
      isHardened: true,
      runArgs: [mount],
      args: ["--static-dir=/app/dist"],
    },
    {
      name: "docs/deploy.md, on that image",
      tag: "based",
      dockerfile: based,
      context: folder,
      isHardened: true,
      ...none,
    },
    {
      name: "examples/docker/Dockerfile",
      tag: "app",
      dockerfile: join(example, "Dockerfile"),
      context: folder,
      isHardened: true,
      ...none,
    },
    {
      name: "examples/docker/Dockerfile.node",
      tag: "app-node",
      dockerfile: join(example, "Dockerfile.node"),
      context: folder,
      isHardened: true,
      ...none,
    },
    {
      name: "README.md, quick start",
      tag: "quick-start",
      dockerfile: readme,
      context: folder,
      isHardened: false,
      ...none,
    },
  ];
}

/** Returns the Dockerfile that a page contains. */
async function dockerfileIn(page: string): Promise<string> {
  const text = await Deno.readTextFile(join(ROOT, page));
  const [, dockerfile] = /```dockerfile\n(.*?)```/s.exec(text) ?? [];
  if (dockerfile === undefined) {
    throw new Error(`Cannot find a Dockerfile in ${page}`);
  }
  return dockerfile;
}
