/**
 * Writes what browsers run, as modules that export its text: `src/client/bundle.ts`, the client, and
 * `src/addons/status/status_page.ts`, the status page without its content. Run it after every change in `src/client/`
 * or in `tools/status_page/`:
 *
 *     deno run -A tools/bundle_client.ts
 */
import { createHash } from "node:crypto";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const ROOT = new URL("../", import.meta.url);

/** Bundles the client. */
export async function bundleClient(): Promise<string> {
  return shortenExports(await bundle("src/client/mod.ts"));
}

/** What esbuild makes of `export const get = rep.get;` and so on: a name of its own for each export. */
const EXPORTS = /var (\w+)=([^;]+);var ((?:\w+=\1\.\w+,?)+);export\{(.*)\};$/;

/** Names each function that the client exports once instead of three times, which saves 80 bytes with Brotli. */
function shortenExports(text: string): string {
  const [found, client = "", value, assignments = "", exported = ""] =
    EXPORTS.exec(text) ?? [];
  if (found === undefined) {
    throw new Error("Cannot shorten the exports of the client: none found");
  }
  const functions = assignments.split(",").map((one) => one.split("=").at(0));
  const others = exported.split(",").filter((one) =>
    !functions.includes(one.split(" as ").at(0))
  );
  const names = assignments.replaceAll(/\w+=\w+\./g, "");
  return text.replace(
    found,
    () =>
      `var ${client}=${value};export var{${names}}=${client};export{${others}};`,
  );
}

/** The status page without its content, and the policy that permits its script and its style only. */
interface StatusPage {
  readonly page: string;
  readonly policy: string;
}

/** Returns the status page, in which the element `main` is empty. */
export async function bundleStatusPage(): Promise<StatusPage> {
  const read = (name: string) =>
    Deno.readTextFile(new URL(`tools/status_page/${name}`, ROOT));
  const style = (await read("page.css")).replace(/\s+/g, " ").trim();
  const script = await bundle("tools/status_page/page.ts");
  const page = (await read("page.html"))
    .replace("</style>", () => `${style}</style>`)
    .replace("</script>", () => `${script}</script>`);
  const policy = [
    "default-src 'none'",
    `style-src '${hashOf(style)}'`,
    `script-src '${hashOf(script)}'`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ];
  return { page, policy: policy.join("; ") };
}

/** Returns the hash of an inline script or style (CSP §2.3.1). */
function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/**
 * Bundles a module. `deno bundle` downloads esbuild from npm, in the version that belongs to this version of Deno.
 *
 * @throws {Error} If `deno bundle` fails; the message contains its error.
 */
export async function bundle(path: string): Promise<string> {
  const args = [
    "bundle",
    "--quiet",
    "--no-lock",
    "--minify",
    "--platform",
    "browser",
    new URL(path, ROOT).href,
  ];
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args,
  }).output();
  const [text, error] = [stdout, stderr].map((bytes) =>
    new TextDecoder().decode(bytes).trim()
  );
  if (!success || !text) throw new Error(`Cannot bundle ${path}: ${error}`);
  return text;
}

/** Returns the source of the module that exports the client, as it is and compressed. */
function createClientModule(bundle: string): string {
  const brotli = brotliCompressSync(bundle, {
    params: { [constants.BROTLI_PARAM_SIZE_HINT]: bundle.length },
  });
  return `// deno-fmt-ignore-file -- made by tools/bundle_client.ts
import { decodeBase64 } from "@std/encoding/base64";

/** The client as a minified ES module, for pages that have no bundler. */
export const CLIENT_JS: string = ${JSON.stringify(bundle)};

/** {@linkcode CLIENT_JS} in the content coding \`br\`. */
export const CLIENT_BR: Uint8Array<ArrayBuffer> = /* @__PURE__ */ decodeBase64("${
    brotli.toString("base64")
  }");

/** {@linkcode CLIENT_JS} in the content coding \`gzip\`. */
export const CLIENT_GZIP: Uint8Array<ArrayBuffer> = /* @__PURE__ */ decodeBase64("${
    gzipSync(bundle, { level: 9 }).toString("base64")
  }");
`;
}

/** Returns the source of the module that exports the status page. */
function createStatusModule({ page, policy }: StatusPage): string {
  return `// deno-fmt-ignore-file -- made by tools/bundle_client.ts

/** The status page, in which the element \`main\` is empty. */
export const STATUS_PAGE: string = ${JSON.stringify(page)};

/** Its Content Security Policy. */
export const STATUS_POLICY: string = ${JSON.stringify(policy)};
`;
}

if (import.meta.main) {
  const write = (path: string, text: string) =>
    Deno.writeTextFile(new URL(path, ROOT), text);
  await write("src/client/bundle.ts", createClientModule(await bundleClient()));
  await write(
    "src/addons/status/status_page.ts",
    createStatusModule(await bundleStatusPage()),
  );
}
