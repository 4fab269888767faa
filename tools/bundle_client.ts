/**
 * Writes what browsers run, as modules that export its text: `src/client/bundle.ts`, the client, and
 * `src/endpoints/status/bundle.ts`, the script and the style of the status page, in `tools/status_page/`. Run it after
 * every change there, in `src/client/` or in `src/endpoints/status/`:
 *
 *     deno run -A tools/bundle_client.ts
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const ROOT = new URL("../", import.meta.url);

/** Bundles the client. */
export function bundleClient(): Promise<string> {
  return bundle("src/client/mod.ts");
}

/** Returns the script and the style of the status page. */
export async function bundleStatusPage(): Promise<{ script: string; style: string }> {
  const style = await Deno.readTextFile(new URL("tools/status_page/page.css", ROOT));
  return { script: await bundle("tools/status_page/page.ts"), style: style.replace(/\s+/g, " ").trim() };
}

/**
 * Bundles a module. `deno bundle` downloads esbuild from npm, in the version that belongs to this version of Deno.
 *
 * @throws {Error} If `deno bundle` fails; the message contains its error.
 */
async function bundle(path: string): Promise<string> {
  const args = ["bundle", "--quiet", "--no-lock", "--minify", "--platform", "browser", new URL(path, ROOT).href];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const [text, error] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  if (!success || !text) throw new Error(`Cannot bundle ${path}: ${error}`);
  return text;
}

/** Returns the source of the module that exports the client, as it is and compressed. */
function createClientModule(bundle: string): string {
  const brotli = brotliCompressSync(bundle, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: bundle.length } });
  return `// deno-fmt-ignore-file -- made by tools/bundle_client.ts
import { decodeBase64 } from "@std/encoding/base64";

/** The client as a minified ES module, for pages that have no bundler. */
export const CLIENT_JS: string = ${JSON.stringify(bundle)};

/** {@linkcode CLIENT_JS} in the content coding \`br\`. */
export const CLIENT_BR: Uint8Array<ArrayBuffer> = /* @__PURE__ */ decodeBase64("${brotli.toString("base64")}");

/** {@linkcode CLIENT_JS} in the content coding \`gzip\`. */
export const CLIENT_GZIP: Uint8Array<ArrayBuffer> = /* @__PURE__ */ decodeBase64("${
    gzipSync(bundle, { level: 9 }).toString("base64")
  }");
`;
}

/** Returns the source of the module that exports the parts of the status page. */
function createStatusModule({ script, style }: { script: string; style: string }): string {
  return `// deno-fmt-ignore-file -- made by tools/bundle_client.ts

/** The script of the status page. */
export const STATUS_SCRIPT: string = ${JSON.stringify(script)};

/** Its style. */
export const STATUS_STYLE: string = ${JSON.stringify(style)};
`;
}

if (import.meta.main) {
  const write = (path: string, text: string) => Deno.writeTextFile(new URL(path, ROOT), text);
  await write("src/client/bundle.ts", createClientModule(await bundleClient()));
  await write("src/endpoints/status/bundle.ts", createStatusModule(await bundleStatusPage()));
}
