import { readEnvironment } from "../../files/read_environment.ts";
import { silentLog } from "../../core/observe/log.ts";
import { MAX_BY } from "../../stored/write_cause.ts";
import { MEMORY } from "../../engines/memory.ts";
import { openStore } from "../../engines/open.ts";
import type { Store } from "../../core/store/store.ts";
import { systemClock } from "../../core/values/clock.ts";
import { isGranted, readVariable } from "../../core/values/runtime.ts";
import { PROGRAM } from "../options/help.ts";
import { loadKvToken } from "../sources/secret_files.ts";
import { writeLine } from "./write_line.ts";
import type { CommandIo } from "./command_io.ts";

/** Returns what commands use on Deno. */
export function denoIo(program = PROGRAM): CommandIo {
  return {
    program,
    environment: readEnvironment(),
    directory: "",
    actor: userAtHost,
    openStore: openPersistentStore,
    async storeExists(path) {
      const module = await import("../../engines/open_named.ts"); // most commands do not use it
      return await module.storeExists(path);
    },
    print: writeLine, // `console.log` ignores a broken pipe, so that a command would go on
    printError,
    clock: systemClock,
    random: Math.random,
  };
}

/** The variables with the name of the user: on Unix, and on Windows. */
const USER_VARIABLES = ["USER", "LOGNAME", "USERNAME"];

/** Returns the name of the user; its number where no variable has it, as in containers. */
function userName(): string | undefined {
  const named = USER_VARIABLES.map(readVariable).find((name) => name);
  const isUnnamed = named === undefined &&
    isGranted({ name: "env", variable: "USER" }) &&
    isGranted({ name: "sys", kind: "uid" });
  return isUnnamed ? Deno.uid()?.toString() : named;
}

function userAtHost(): string | undefined {
  const user = userName();
  const mayReadHost = isGranted({ name: "sys", kind: "hostname" });
  if (user === undefined || !mayReadHost) return undefined;
  return `${user}@${Deno.hostname()}`.slice(0, MAX_BY).toWellFormed();
}

/**
 * Opens the store that `--kv` names, as the gateway does.
 *
 * @throws {TypeError} If it cannot be opened, or would be in memory and end with the command.
 */
export async function openPersistentStore(
  path: string | undefined,
): Promise<Store> {
  let reason =
    "it is deleted when this command ends; expected --kv with a file or a URL";
  await loadKvToken();
  const store = await openStore(path, {
    ...silentLog,
    warn(_event, fields) {
      reason = String(fields?.detail); // of a store in memory that nobody asked for
    },
  });
  if (store.engine !== MEMORY) return store;
  store.close();
  throw new TypeError(
    `Cannot keep variables in memory, where no gateway would see them: ${reason}`,
  );
}

function printError(text: string): void {
  // deno-lint-ignore no-console -- messages go to standard error
  console.error(text);
}
