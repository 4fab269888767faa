import { join } from "@std/path";

/** A Deno KV database in a file that is gone afterwards. */
export interface KvFile extends AsyncDisposable {
  open(): Promise<Deno.Kv>;
}

/** Makes one. Whoever opens it closes it. */
export async function kvFile(): Promise<KvFile> {
  const folder = await Deno.makeTempDir();
  return {
    open: () => Deno.openKv(join(folder, "kv.sqlite3")),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
