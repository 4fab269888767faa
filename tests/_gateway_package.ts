import { join } from "@std/path";
import { stdFlags } from "../tools/std.ts";

let built: Promise<string> | undefined;

/** Returns the folder of the gateway's npm package, which is built once for each test file. */
export function gatewayPackage(): Promise<string> {
  return built ??= build();
}

Deno.test.afterAll(async () => {
  if (built !== undefined) await Deno.remove(await built, { recursive: true });
});

/** The modules by what they are imported as. */
const ENTRIES = {
  ".": "main",
  "./client": "src/client/mod",
  "./react": "src/client/react/mod",
  "./vite": "src/vite/mod",
  "./vue": "src/client/vue/mod",
};

async function build(): Promise<string> {
  const folder = await Deno.makeTempDir();
  const external = ["--external=re2js", "--external=react", "--external=vue"];
  const options = ["--quiet", "--no-lock", "--code-splitting", "--platform=deno", ...external, ...await stdFlags()];
  const args = ["bundle", ...options, `--outdir=${folder}`, ...Object.values(ENTRIES).map((path) => `${path}.ts`)];
  const { success, stderr } = await new Deno.Command(Deno.execPath(), { args }).output();
  if (!success) throw new Error(`Cannot bundle the module: ${new TextDecoder().decode(stderr)}`);
  const exports = Object.fromEntries(Object.entries(ENTRIES).map(([name, path]) => [name, `./${path}.js`]));
  await Deno.writeTextFile(join(folder, "package.json"), JSON.stringify({ type: "module", exports }));
  return folder;
}
