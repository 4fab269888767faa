import { join } from "@std/path";

/** A page of an application, and one of its scripts. */
const PAGE_BYTES = 11_000;
const ASSET_BYTES = 100_000;

/** The paths of the page and the asset. */
export const PAGE_PATH = "/";
export const ASSET_PATH = "/assets/app.js";

/** A temporary directory of static files, with an env file beside it. */
export interface Site extends AsyncDisposable {
  /** The directory of everything. */
  readonly root: string;
  /** The directory that is served. */
  readonly directory: string;
  readonly envFile: string;
}

/** Creates the files of all rows. They are removed on disposal. */
export async function createSite(): Promise<Site> {
  const root = await Deno.makeTempDir();
  const directory = join(root, "site");
  const page = "<!doctype html>\n<title>Page</title>\n".padEnd(
    PAGE_BYTES,
    TEXT,
  );
  const asset = "export const n = 1;\n".padEnd(ASSET_BYTES, "n++;\n");
  await Deno.mkdir(join(directory, "assets"), { recursive: true });
  await Deno.writeTextFile(join(directory, "index.html"), page);
  await Deno.writeTextFile(join(directory, ASSET_PATH), asset);

  const site = {
    root,
    directory,
    envFile: join(root, "app.env"),
    [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }),
  };
  await changeVariable(site);
  return site;
}

const TEXT = "<p>A paragraph of the page.</p>\n";

let changes = 0;

/** Writes the env file with another value of one variable, of at least so many characters. */
export async function changeVariable(
  { envFile }: Site,
  length = 0,
): Promise<void> {
  const value = `value ${changes++}`.padEnd(length, ".");
  let text = `REP_SENSITIVE_TOKEN=value\nREP_PUBLIC_A=${value}\n`;
  for (let index = 0; index < 10; index++) {
    text += `REP_PUBLIC_NAME_${index}=value ${index}\n`;
  }
  await Deno.writeTextFile(envFile, text);
}
