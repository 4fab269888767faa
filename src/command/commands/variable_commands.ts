import {
  findIssues,
  publicName,
  validateAssignments,
  type Validation,
} from "../../stored/set_stored_variables.ts";
import type { Issue } from "../../core/config/variables/apply_manifest.ts";
import { formatValue } from "../../core/config/variables/quote.ts";
import {
  listVariables,
  readHistory,
  type StoredWrite,
  type WriteCause,
} from "../../core/config/stored/stored_variables.ts";
import {
  ConflictError,
  publicVariable,
  writeVariables,
} from "../../stored/write_variables.ts";
import { undoWrite } from "../../stored/undo_write.ts";
import { messageOf } from "../../core/observe/log.ts";
import { noMetrics } from "../../core/observe/metrics.ts";
import { MAX_WAIT_MS } from "../../core/rollout/living_members.ts";
import { indexApp } from "../../core/store/app_index.ts";
import {
  EXPECTED_APP,
  isAppName,
  storeOfApp,
} from "../../core/store/app_store.ts";
import { CircuitBreaker } from "../../core/store/circuit_breaker.ts";
import { forgetApp } from "../../stored/forget_app.ts";
import { type Receipt, waitUntilTaken } from "../../stored/taken_writes.ts";
import {
  type Store,
  StoreUnavailableError,
  withTimeout,
} from "../../core/store/store.ts";
import { formatTime } from "../../core/values/units.ts";
import { optionsOf } from "../options/manifest_settings.ts";
import { UsageError } from "../options/read_options.ts";
import {
  findDefaultManifest,
  readManifest,
} from "../sources/variable_sources.ts";
import { storeOfGateway } from "../options/read_start.ts";
import { checkKnown, describeApps } from "./apps.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { printTable, terminalJson } from "./terminal_text.ts";

/** A database server may accept a connection and never respond. */
const OPEN_TIMEOUT_MS = 10_000;

export async function set(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const values = parseAssignments(line.args);
  const validation = await readValidation(line, io);
  const warnings = await validateAssignments(values, validation);
  const app = line.site ?? line.app;
  async function run(store: Store, root: Store): Promise<StoredWrite[]> {
    if (app !== undefined) {
      if (!line["new-app"]) await checkKnown(app, root);
      await indexApp(root, { name: app, at: io.clock.now() });
    }
    return await writeValues(store, values, line, io);
  }
  const { exitCode } = await write(run, line, io);
  for (const warning of warnings) io.printError(warning);
  return exitCode;
}

/** Takes back a write, with all other variables of the same command. */
export async function undo(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const id = parseId(line.args);
  const validation = await readValidation(line, io);
  async function run(store: Store): Promise<StoredWrite[]> {
    const { writes, undone } = await undoWrite(store, {
      id,
      cause: causeOf(line, io),
      clock: io.clock,
      random: io.random,
      async validate(values) {
        const warnings = await validateAssignments(values, validation);
        for (const warning of warnings) io.printError(warning);
      },
    });
    io.printError(`Took back ${undone}`);
    return writes;
  }
  const { exitCode } = await write(run, line, io);
  return exitCode;
}

/** Values by name; `undefined` for a variable to be removed. */
type Values = ReadonlyMap<string, string | undefined>;

/** Reads what variables are validated against. A site has no manifest by default. */
async function readValidation(
  { manifest, site, force }: CommandArguments,
  { environment, directory }: CommandIo,
): Promise<Validation> {
  const path = manifest ??
    (site === undefined ? await findDefaultManifest(directory) : undefined);
  const found = path === undefined ? undefined : await readManifest(path);
  const { strict, "accept-public": acceptPublic } = optionsOf(found);
  return { manifest: found, environment, strict, acceptPublic, force };
}

async function writeValues(
  store: Store,
  values: Values,
  line: CommandArguments,
  io: CommandIo,
): Promise<StoredWrite[]> {
  return await writeVariables(store, values, {
    clock: io.clock,
    random: io.random,
    ifId: line["if-id"],
    cause: causeOf(line, io),
  });
}

function causeOf(
  { command, by, why }: CommandArguments,
  { actor }: CommandIo,
): WriteCause {
  return { command, by: by ?? actor(), why };
}

/** Returns the id that a command is given; `undefined` if there is none. */
function parseId(args: readonly string[]): number | undefined {
  const [text, ...others] = args;
  if (text === undefined) return undefined;
  const id = /^\d{1,16}$/.test(text) ? Number(text) : 0;
  if (id > 0 && others.length === 0) return id;
  const got = formatValue(args.join(" "));
  throw new UsageError(`Cannot undo ${got}: expected the id of one write`);
}

export async function unset(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const names = new Set(line.args.map(publicName));
  const values = new Map([...names].map((name) => [name, undefined]));
  const run = (store: Store) => writeValues(store, values, line, io);
  const { writes, exitCode } = await write(run, line, io);
  const missing = names.difference(new Set(writes.map(({ name }) => name)));
  for (const name of missing) io.printError(`${name} is not in the store`);
  return exitCode;
}

export async function list(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const isNamed = (line.site ?? line.app) !== undefined;
  const { variables, others } = await withStore(line, io, async (
    store,
    root,
  ) => ({
    variables: await listVariables(store),
    others: isNamed ? [] : await describeApps(root),
  }));
  const named = others.filter(({ variables }) => variables > 0)
    .map(({ name, variables }) => `${name} (${variables})`).join(", ");
  if (named !== "") io.printError(`Variables of apps, see --app: ${named}`);
  if (line.json) return printJson(variables, io);
  const rows = [["NAME", "ID", "WRITTEN", "VALUE"]];
  for (const { name, value, id, at } of variables) {
    rows.push([name, String(id), formatTime(at), value]);
  }
  printTable(rows, io);
}

/** Prints the apps of a store that have a name. */
export async function apps(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const found = await withStore(line, io, (_, root) => describeApps(root));
  if (line.json) return io.print(terminalJson(found));
  const rows = [["NAME", "LAST SEEN", "VARIABLES"]];
  for (const { name, last_seen, variables } of found) {
    rows.push([name, last_seen, String(variables)]);
  }
  printTable(rows, io);
}

/** Deletes all that a store has of an app or a site. It is named as an argument, never by the environment. */
export async function forget(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const [app = "", ...others] = line.args;
  if (others.length > 0 || !isAppName(app)) {
    const got = formatValue(line.args.join(" "));
    throw new UsageError(`Cannot forget ${got}: expected ${EXPECTED_APP}`);
  }
  const wasThere = await withStore(line, io, async (_, root) => {
    const part = storeOfApp(root, app);
    const living = await waitUntilTaken(part, Infinity, io.clock); // none can have taken that
    if (living.notTakenBy.length > 0) {
      const places = living.notTakenBy.join(", ");
      throw new ConflictError(
        `Cannot forget ${app}: expected no gateway of it, but one runs at ${places}; stop it, or remove the directory of the site, and try again`,
      );
    }
    return await forgetApp(root, app);
  });
  io.printError(
    wasThere ? `Forgotten: ${app}` : `The store has nothing of ${app}`,
  );
}

export async function history(
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const read = (store: Store) => readHistory(store, line.limit);
  const writes = await withStore(line, io, read);
  if (line.json) return printJson(writes, io);
  const rows = [["WRITTEN", "ID", "WRITE", "BY", "WHY", "NAME", "VALUE"]];
  for (const { name, value, id, at, by = "", why = "", undoes } of writes) {
    const kind = value === undefined ? "unset" : "set";
    const write = undoes === undefined ? kind : `${kind}, undoes ${undoes}`;
    rows.push([formatTime(at), `${id}`, write, by, why, name, value ?? ""]);
  }
  printTable(rows, io);
}

/** The exit code if gateways with hot reload are running and none has taken the write. */
export const NOT_TAKEN = 3;

/** Writes variables, and prints the writes and whether the gateways have taken them. */
async function write(
  run: (store: Store, root: Store) => Promise<readonly StoredWrite[]>,
  line: CommandArguments,
  io: CommandIo,
): Promise<{ writes: readonly StoredWrite[]; exitCode: number }> {
  return await withStore(line, io, async (store, root) => {
    const writes = await run(store, root);
    if (!line.json && writes.length > 0) {
      const rows = writes.map(({ name, id }) => [name, String(id)]);
      printTable([["NAME", "ID"], ...rows], io);
    }
    const { takenBy, notTakenBy } = await receiptOf(writes, store, line, io);
    if (line.json) {
      const taken = { taken_by: takenBy, not_taken_by: notTakenBy };
      const all = writes.map((write) => ({ ...toJson(write), ...taken }));
      io.print(terminalJson(all));
    }
    const isTaken = takenBy.length > 0 || notTakenBy.length === 0;
    return { writes, exitCode: isTaken ? 0 : NOT_TAKEN };
  });
}

/**
 * Names what the manifest rejects in the store, whoever wrote it: until then, gateways take no write. If it rejects
 * nothing, or is not here, that began with the first write that they have not taken.
 */
async function printRejected(
  { notTakenBy, lastTaken }: Receipt,
  writes: readonly StoredWrite[],
  store: Store,
  line: CommandArguments,
  io: CommandIo,
): Promise<void> {
  const stored = await listVariables(store);
  const values = new Map(stored.map(({ name, value }) => [name, value]));
  const ids = new Map(stored.map(({ name, id }) => [publicVariable(name), id]));
  // With force, as gateways do not reject quotes.
  const issues = await readValidation({ ...line, force: true }, io)
    .then((validation) => findIssues(values, validation))
    .catch((error): Issue[] => [{ text: messageOf(error) }]); // `unset` works without the manifest
  for (const { variable = "", text } of issues) {
    const id = ids.get(variable);
    const advice = id &&
      `; to take that back, use: undo ${id}, or: unset ${variable}`;
    io.printError(text + (advice ?? ""));
  }
  const isNamed = issues.some(({ variable = "" }) => ids.has(variable));
  if (isNamed || notTakenBy.length === 0) return;
  const [first] = stored.filter(({ id }) => id > lastTaken)
    .sort((a, b) => a.id - b.id);
  if (first === undefined) { // it was removed
    return io.printError(`To take this back, use: undo ${writes.at(-1)?.id}`);
  }
  const variable = publicVariable(first.name);
  io.printError(
    `The first write that they have not taken is of ${variable}; to take that back, use: undo ${first.id}, or: unset ${variable}`,
  );
}

/**
 * Waits until the gateways have taken the writes, and prints how many have, or what they reject. It does not fail if the
 * store does.
 */
async function receiptOf(
  writes: readonly StoredWrite[],
  store: Store,
  line: CommandArguments,
  io: CommandIo,
): Promise<Receipt> {
  const newest = writes.at(-1)?.id;
  const none = { takenBy: [], notTakenBy: [], lastTaken: 0 };
  if (newest === undefined) return none;
  try {
    const receipt = await waitUntilTaken(store, newest, io.clock);
    io.printError(describeReceipt(receipt));
    if (receipt.takenBy.length === 0) {
      await printRejected(receipt, writes, store, line, io);
    }
    return receipt;
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    io.printError(
      `Written; whether a gateway has taken it is unknown: ${error.message}`,
    );
    return none;
  }
}

function describeReceipt({ takenBy, notTakenBy }: Receipt): string {
  const count = takenBy.length;
  const gateways = count === 1 ? "1 gateway" : `${count} gateways`;
  if (notTakenBy.length > 0) {
    const result = count > 0
      ? `Taken by ${gateways}, but not`
      : "Written, but not taken";
    const places = notTakenBy.join(", ");
    const time = `within ${MAX_WAIT_MS / 1_000} s`;
    return `${result} by ${places} ${time}: look for rep.config.rejected in the log there. The store has the new values until you set or unset them again`;
  }
  return count > 0 ? `Taken by ${gateways}` : NO_GATEWAY;
}

/** Gateways without hot reload also take writes, but have no entry in the store. */
const NO_GATEWAY =
  "Written; no gateway with --hot-reload is running here (check --kv, --app and --port if one should), " +
  "and others, or one that has started with an invalid value in the store, do not report what they have taken";

/** Opens the store of a command line, the part of its app and the whole, and closes it in the end. */
export async function withStore<T>(
  line: CommandArguments,
  { openStore, clock }: CommandIo,
  run: (store: Store, root: Store) => Promise<T>,
): Promise<T> {
  const { kv, port, site } = line;
  if (site !== undefined && line.app !== undefined) {
    throw new UsageError("Cannot use --site and --app: expected one of them");
  }
  const app = site ?? line.app;
  const opened = await withTimeout(openStore(kv), OPEN_TIMEOUT_MS, clock);
  const root = new CircuitBreaker(opened, { clock, metrics: noMetrics });
  const gatewayStore = storeOfGateway(root, { kv, app, port });
  try {
    return await run(storeOfApp(gatewayStore, app), root);
  } finally {
    root.close();
  }
}

function parseAssignments(args: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const arg of args) {
    const index = arg.indexOf("=");
    if (index === -1) {
      throw new UsageError(
        `Cannot set ${formatValue(arg)}: expected KEY=VALUE`,
      );
    }
    const name = publicName(arg.slice(0, index));
    if (values.has(name)) {
      throw new UsageError(`Cannot set ${name} twice: expected one value`);
    }
    values.set(name, arg.slice(index + 1));
  }
  return values;
}

function printJson(writes: readonly StoredWrite[], { print }: CommandIo): void {
  print(terminalJson(writes.map(toJson)));
}

function toJson({ name, value, id, at, ...others }: StoredWrite) {
  const written_at = formatTime(at);
  return { name, value: value ?? null, id, written_at, ...others };
}
