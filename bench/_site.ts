import { join } from "@std/path";

/** The sizes of issue and table: a page of an application, and one of its scripts. */
export const PAGE_BYTES = 11_000;
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

/** Creates the files of all HTTP rows. They are removed on disposal. */
export async function createSite(pageBytes = PAGE_BYTES): Promise<Site> {
  const root = await Deno.makeTempDir();
  const directory = join(root, "site");
  await Deno.mkdir(join(directory, "assets"), { recursive: true });
  await Deno.writeTextFile(join(directory, "index.html"), pageOf(pageBytes));
  await Deno.writeTextFile(
    join(directory, "assets", "app.js"),
    textOf(ASSET_BYTES, "export const n = 1;\n"),
  );
  const envFile = join(root, "app.env");
  await Deno.writeTextFile(
    envFile,
    ENVIRONMENT.map((line) => `${line}\n`).join(""),
  );
  return {
    root,
    directory,
    envFile,
    [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }),
  };
}

const ENVIRONMENT = [
  ...Array.from(
    { length: 10 },
    (_, index) => `REP_PUBLIC_NAME_${index}=value ${index}`,
  ),
  "REP_SENSITIVE_TOKEN=value",
];

function pageOf(bytes: number): string {
  const [head, end] = [
    "<!doctype html>\n<html>\n<head>\n<title>Page</title>\n</head>\n<body>\n",
    "</body>\n</html>\n",
  ];
  return head +
    textOf(
      bytes - head.length - end.length,
      "<p>A paragraph of the page.</p>\n",
    ) + end;
}

function textOf(bytes: number, line: string): string {
  return line.repeat(Math.ceil(bytes / line.length)).slice(0, bytes - 1) + "\n";
}
