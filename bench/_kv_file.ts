import { join } from "@std/path";

/** A Deno KV database in a temporary file. */
export interface KvFile extends AsyncDisposable {
  /** Opens a connection; the caller closes it. */
  open(): Promise<Deno.Kv>;
}

/** Creates the folder of a temporary database; it is removed on disposal. */
export async function createKvFile(): Promise<KvFile> {
  const folder = await Deno.makeTempDir();
  return {
    open: () => Deno.openKv(join(folder, "kv.sqlite3")),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
