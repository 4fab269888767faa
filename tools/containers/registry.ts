import { basename, dirname, join, relative } from "@std/path";
import config from "../../deno.json" with { type: "json" };
import std from "../std_without_jsr.json" with { type: "json" };
import { buildNpmPackage } from "../npm_package.ts";

const ROOT = join(import.meta.dirname ?? ".", "../..");
const { name: NAME, version: VERSION } = config;

/**
 * A registry on 127.0.0.1 that has only this checkout, as the package that it will be on JSR and on npm: until its first
 * release, Dockerfiles that name it cannot be built otherwise.
 */
export class Registry implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #answers = new Map<string, Uint8Array<ArrayBuffer>>();

  private constructor() {
    const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
    this.#server = Deno.serve(options, (request) => {
      const path = decodeURIComponent(new URL(request.url).pathname);
      const answer = this.#answers.get(path);
      return new Response(answer, { status: answer ? 200 : 404 });
    });
  }

  /** @param folder Where the npm package is built. */
  static async start(folder: string): Promise<Registry> {
    const registry = new Registry();
    await registry.#publishOnNpm(folder);
    await registry.#publishOnJsr();
    return registry;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}`;
  }

  /** Where JSR's packages are. */
  get jsrUrl(): string {
    return `${this.url}/jsr/`;
  }

  #addJson(path: string, value: unknown): void {
    this.#answers.set(path, new TextEncoder().encode(JSON.stringify(value)));
  }

  async #publishOnNpm(folder: string): Promise<void> {
    const tarball = await buildNpmPackage(folder);
    const path = `/${basename(tarball)}`;
    this.#answers.set(path, await Deno.readFile(tarball));
    const manifest = join(folder, "package/package.json");
    const dist = { tarball: `${this.url}${path}` };
    const version = { ...JSON.parse(await Deno.readTextFile(manifest)), dist };
    this.#addJson(`/${NAME}`, {
      name: NAME,
      "dist-tags": { latest: VERSION },
      versions: { [VERSION]: version },
    });
  }

  /** Publishes the modules as `deno publish` would, but with the `@std` packages of npm. */
  async #publishOnJsr(): Promise<void> {
    const base = `/jsr/${NAME}`;
    const manifest: Record<string, unknown> = {};
    const sources = await filesIn(["deno.json", "main.ts", "serve.ts", "src"]);
    for (const source of [...sources, "tools/std_log.ts"]) {
      const path = join(ROOT, source);
      const text = withNpmPackages(await Deno.readTextFile(path), path);
      const bytes = new TextEncoder().encode(text);
      const hash = await crypto.subtle.digest("SHA-256", bytes);
      const checksum = `sha256-${new Uint8Array(hash).toHex()}`;
      manifest[`/${source}`] = { size: bytes.length, checksum };
      this.#answers.set(`${base}/${VERSION}/${source}`, bytes);
    }
    const { exports } = config;
    this.#addJson(`${base}/meta.json`, { versions: { [VERSION]: {} } });
    this.#addJson(`${base}/${VERSION}_meta.json`, { exports, manifest });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** Returns the files at some paths in the checkout. */
async function filesIn(paths: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  for (const path of paths) {
    const { isFile } = await Deno.stat(join(ROOT, path));
    if (isFile) found.push(path);
    else {
      const entries = await Array.fromAsync(Deno.readDir(join(ROOT, path)));
      found.push(
        ...await filesIn(entries.map(({ name }) => `${path}/${name}`)),
      );
    }
  }
  return found;
}

/** Replaces the names in a module's imports as `tools/std_without_jsr.json` says. */
function withNpmPackages(text: string, path: string): string {
  const targets: Readonly<Record<string, string>> = std.imports;
  const specifier = /(?<=\bfrom |\bimport\()"([\w@][^"]*)"/g;
  return text.replaceAll(specifier, (all, name: string) => {
    const target = targets[name];
    if (target === undefined) return all;
    if (!target.startsWith(".")) return JSON.stringify(target);
    const file = relative(dirname(path), join(ROOT, "tools", target));
    return JSON.stringify(file.replace(/^(?!\.)/, "./"));
  });
}
