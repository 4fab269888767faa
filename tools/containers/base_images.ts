import { join } from "@std/path";
import { npm } from "../install_npm_packages.ts";
import { type Podman, run } from "./podman.ts";

/** The release of Debian that the real images have. */
const DEBIAN = "bookworm";

/** The certificates of this machine, which may trust those of a proxy. */
const CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt";

/** What an image has besides Debian: links in `/usr/local/bin` to files of npm's packages. */
interface Substitute {
  readonly packages: readonly string[];
  readonly links: Readonly<Record<string, string>>;
}

/** @throws {TypeError} If there is no substitute for an image. */
function substituteFor(image: string): Substitute {
  const [, name, version] =
    /^(?:denoland\/)?(deno|node):([\d.]+)/.exec(image) ??
      [];
  if (name === "deno") {
    return { packages: [`deno@${version}`], links: { deno: "deno/deno" } };
  }
  if (name === "node") {
    const links = {
      node: "node/bin/node",
      npm: "npm/bin/npm-cli.js",
      npx: "npm/bin/npx-cli.js",
    };
    return { packages: [`node@${version}`, "npm@11"], links };
  }
  throw new TypeError(`Cannot substitute ${image}: expected deno or node`);
}

/**
 * Makes an image of Debian's and npm's packages, for networks without a registry of images, unless there is one. It gets
 * the name of the image that it replaces.
 */
export async function makeBaseImage(
  podman: Podman,
  image: string,
): Promise<void> {
  const path = image.includes("/") ? image : `library/${image}`;
  const name = `docker.io/${path}`;
  if (await podman.hasImage(name)) return;
  const { packages, links } = substituteFor(image);
  const folder = await Deno.makeTempDir();
  try {
    const root = join(folder, "root");
    const include = "--include=ca-certificates";
    await run("debootstrap", ["--variant=minbase", include, DEBIAN, root]);
    await Deno.copyFile(CERTIFICATES, join(root, CERTIFICATES));
    const modules = join(root, "usr/local/lib");
    const installed = await npm(["install", ...packages], modules);
    if (!installed.success) throw new Error(installed.stderr);
    for (const [link, file] of Object.entries(links)) {
      const target = `../lib/node_modules/${file}`;
      await Deno.symlink(target, join(root, "usr/local/bin", link));
    }
    const archive = join(folder, "root.tar");
    await run("tar", ["--directory", root, "--create", "--file", archive, "."]);
    const certificates = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"]
      .map((variable) => `--change=ENV ${variable}=${CERTIFICATES}`);
    await podman.run("import", ...certificates, archive, name);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
