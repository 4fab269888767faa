import { publicName, validateAssignments } from "./validate_assignments.ts";
import type { CommandIo } from "./command_io.ts";
import { type CommandName, readVariableCommandLine, type VariableCommandLine } from "./command_line.ts";
import { variableHelp } from "./help.ts";
import { openWithTimeout } from "./persistent_store.ts";
import { cut, formatTable, terminalJson, visible } from "./table.ts";
import { UsageError } from "../read_options.ts";
import { withCircuitBreaker } from "../../store/circuit_breaker.ts";
import { type Store, StoreUnavailableError } from "../../store/store.ts";
import { formatValue } from "../../variables/format_value.ts";
import { readTextFile } from "../sources.ts";
import {
  listVariables,
  newestWrite,
  readHistory,
  readWrites,
  setVariables,
  type StoredWrite,
  unsetVariables,
} from "../../variables/stored.ts";
import { watchVariables } from "../../variables/watch_stored.ts";

type Run = (line: VariableCommandLine, io: CommandIo) => Promise<void>;

const RUN: Readonly<Record<CommandName, Run>> = { set, unset, list, history, watch };

/**
 * Runs `set`, `unset`, `list`, `history` or `watch`.
 *
 * @param args The command line, its first word being the command's name.
 * @returns The exit code: 0; 1 if it was refused, somebody else wrote, or the store did not answer; 2 if it was called wrongly.
 */
export async function runVariableCommand(args: readonly string[], io: CommandIo): Promise<number> {
  try {
    const line = readVariableCommandLine(args, io.environment);
    if (line.help) io.print(variableHelp());
    else await RUN[line.command](line, io);
    return 0;
  } catch (error) {
    if (error instanceof Deno.errors.BrokenPipe) return 0; // whoever read the output has seen enough of it
    io.printError(error instanceof Error ? error.message : String(error));
    return error instanceof UsageError ? 2 : 1;
  }
}

async function set(line: VariableCommandLine, io: CommandIo): Promise<void> {
  const values = readAssignments(line.words);
  const manifest = line.manifest === undefined ? undefined : await readTextFile(line.manifest, "--manifest");
  const remarks = validateAssignments(values, { environment: io.environment, manifest, force: line.force });
  const { clock, random } = io;
  const options = { clock, random, ifId: line.ifId };
  const writes = await withStore(line, io, (store) => unsure(setVariables(store, values, options)));
  printWritten(writes, line, io);
  for (const remark of remarks) io.printError(remark);
}

async function unset(line: VariableCommandLine, io: CommandIo): Promise<void> {
  const names = new Set(line.words.map(publicName));
  const { clock, random } = io;
  const options = { clock, random, ifId: line.ifId };
  const writes = await withStore(line, io, (store) => unsure(unsetVariables(store, names, options)));
  printWritten(writes, line, io);
  const missing = names.difference(new Set(writes.map(({ name }) => name)));
  for (const name of missing) io.printError(`${name} is not in the store`);
}

async function list(line: VariableCommandLine, io: CommandIo): Promise<void> {
  const variables = await withStore(line, io, listVariables);
  if (line.json) return printJson(variables, io);
  if (variables.length === 0) return io.printError("There are no variables in the store");
  const rows = variables.map(({ name, value, id, at }) => [name, value, String(id), timeOf(at)]);
  printTable([["NAME", "VALUE", "ID", "WRITTEN"], ...rows], 1, io);
}

async function history(line: VariableCommandLine, io: CommandIo): Promise<void> {
  const writes = await withStore(line, io, (store) => readHistory(store, line.limit));
  if (line.json) return printJson(writes, io);
  if (writes.length === 0) return io.printError("Nothing has been written yet");
  const rows = writes.map((one) => [timeOf(one.at), String(one.id), kindOf(one), one.name, one.value ?? ""]);
  printTable([["WRITTEN", "ID", "WRITE", "NAME", "VALUE"], ...rows], 4, io);
}

async function watch(line: VariableCommandLine, io: CommandIo): Promise<void> {
  const tell = (failure?: Error) => io.printError(failure?.message ?? "The store answers again");
  await withStore(line, { ...io, onChange: tell }, async (store) => {
    const stop = new AbortController();
    void io.stopped().then(() => stop.abort());
    let last = await newestWrite(store);
    const printNew = async () => {
      for (const one of await readWrites(store, last)) {
        io.print(line.json ? terminalJson(rowOf(one)) : cut(lineOf(one), io.columns));
        last = one.id;
      }
    };
    io.printError("Watching the variables in the store");
    await watchVariables(store, printNew, { clock: io.clock, signal: stop.signal, after: last });
  });
}

/** Of a write that failed, nobody here knows how far it came. */
async function unsure(writing: Promise<StoredWrite[]>): Promise<StoredWrite[]> {
  try {
    return await writing;
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    throw new StoreUnavailableError(`${error.message}; history says what was written all the same`, { cause: error });
  }
}

interface StoreIo extends Pick<CommandIo, "openStore" | "clock"> {
  /** Told when the store stops working, and when it works again; else only the operation that failed is. */
  onChange?: (failure?: Error) => void;
}

async function withStore<T>(
  { kv }: VariableCommandLine,
  { openStore, clock, onChange = () => {} }: StoreIo,
  run: (store: Store) => Promise<T>,
): Promise<T> {
  const store = withCircuitBreaker(await openWithTimeout(openStore(kv), clock), { clock, onChange });
  try {
    return await run(store);
  } finally {
    store.close();
  }
}

function readAssignments(words: readonly string[]): Map<string, string> {
  const values = new Map<string, string>();
  for (const word of words) {
    const at = word.indexOf("=");
    if (at === -1) throw new UsageError(`Cannot set ${formatValue(word)}: expected KEY=VALUE`);
    const name = publicName(word.slice(0, at));
    if (values.has(name)) throw new UsageError(`Cannot set ${name} twice: expected one value`);
    values.set(name, word.slice(at + 1));
  }
  return values;
}

function printWritten(writes: readonly StoredWrite[], { json }: VariableCommandLine, io: CommandIo): void {
  if (json) printJson(writes, io);
  else if (writes.length > 0) printTable([["NAME", "ID"], ...writes.map(({ name, id }) => [name, String(id)])], 0, io);
}

function printTable(rows: readonly (readonly string[])[], flexible: number, { columns, print }: CommandIo): void {
  print(formatTable(rows, { width: columns, flexible }).join("\n"));
}

function printJson(writes: readonly StoredWrite[], { print }: CommandIo): void {
  print(terminalJson(writes.map(rowOf), 2));
}

function rowOf({ name, value, id, at }: StoredWrite) {
  return { name, value: value ?? null, id, written_at: timeOf(at) };
}

function lineOf(write: StoredWrite): string {
  const { name, value, id, at } = write;
  const what = value === undefined ? name : `${name}=${value}`;
  return visible(`${timeOf(at)}  ${id}  ${kindOf(write).padEnd(5)}  ${what}`);
}

function kindOf({ value }: StoredWrite): string {
  return value === undefined ? "unset" : "set";
}

/** RFC 3339, in UTC. */
function timeOf(at: number): string {
  return new Date(at).toISOString();
}
