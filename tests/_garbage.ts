import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Frees what nothing refers to any more. */
export async function collectGarbage(): Promise<void> {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  await new Promise((resolve) => setTimeout(resolve)); // a WeakRef keeps its target until the current job has ended
  collect();
}
