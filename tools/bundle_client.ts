/**
 * Writes `src/client/bundle.ts`, the client as one minified module. Run it after every change in `src/client/`:
 *
 *     deno run -A tools/bundle_client.ts
 */
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const ENTRY = new URL("../src/client/mod.ts", import.meta.url);
const TARGET = new URL("../src/client/bundle.ts", import.meta.url);

/**
 * Bundles the client. `deno bundle` downloads esbuild from npm, in the version that belongs to this version of Deno.
 *
 * @throws {Error} If `deno bundle` fails; the message contains its error.
 */
export async function bundleClient(): Promise<string> {
  const args = ["bundle", "--quiet", "--no-lock", "--minify", "--platform", "browser", ENTRY.href];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  const [text, error] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes).trim());
  if (!success || !text) throw new Error(`Cannot bundle the client: ${error}`);
  return text;
}

/** Returns the source of the module that exports a bundle, as it is and compressed. */
function createModule(bundle: string): string {
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

if (import.meta.main) await Deno.writeTextFile(TARGET, createModule(await bundleClient()));
