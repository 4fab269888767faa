import type { Fault } from "./faults.ts";
import { type Noticed, together } from "./users.ts";
import type { Sign } from "./watch.ts";

/** A sign that names the cause of a fault. */
export interface Naming {
  /** Where it was seen: `log`, `health`, `metric`, `proxy`. */
  readonly kind: string;
  /** What was seen there: "rep.store.down". */
  readonly what: string;
  /** The process. */
  readonly who: string;
  /** The seconds after the fault began. */
  readonly seconds: number;
}

/** The outcome of a fault. */
export interface Outcome {
  readonly name: string;
  readonly noticed: Noticed;
  /** What named the cause: the first sign of each kind. */
  readonly named: readonly Naming[];
  /** Why it did not take place. */
  readonly skipped?: string;
  /** What else went wrong. @default {[]} */
  readonly troubles?: readonly string[];
}

/** Returns the first sign of each kind that names the cause of a fault. */
export function namedBy(
  { names }: Fault,
  signs: readonly Sign[],
  begin: number,
): Naming[] {
  const first = new Map<string, Naming>();
  for (const { text, who, at } of signs) {
    if (!names.some((name) => text.startsWith(name))) continue;
    const [kind = "", ...words] = text.split(" ");
    const seconds = (at - begin) / 1_000;
    if (first.has(kind)) continue;
    first.set(kind, { kind, what: words.join(" "), who, seconds });
  }
  return [...first.values()];
}

/** Returns what users have noticed although a fault must not cause it. */
export function forbidden(
  { never = [] }: Pick<Fault, "never">,
  { failures }: Noticed,
): string[] {
  const found = failures.keys().filter((failure) =>
    never.some((beginning) => failure.startsWith(beginning))
  );
  return Array.from(found, (failure) => `users must not notice: ${failure}`);
}

/** Returns the outcome of a fault that cannot take place. */
export function skip({ name }: Fault, skipped: string): Outcome {
  return { name, noticed: together([]), named: [], skipped };
}

/** Whether a fault shows that something is wrong with the gateway. */
export function isFailed(outcome: Outcome): boolean {
  const { noticed, named, skipped, troubles = [] } = outcome;
  if (skipped !== undefined) return false;
  return noticed.lost > 0 || named.length === 0 || troubles.length > 0;
}

/** Returns everything about a fault, for the terminal. */
export function formatDetails(outcome: Outcome): string {
  const { noticed, named, skipped, troubles = [] } = outcome;
  if (skipped !== undefined) return `  skipped: ${skipped}`;
  const { requests, gapMs, olderMs } = noticed;
  const signs = named.map(({ kind, what, who, seconds }) =>
    `${kind} ${what} (${who}) after ${seconds.toFixed(1)} s`
  );
  const lines = [
    `${requests} requests; failed: ${failuresOf(noticed)}`,
    `at most ${toSeconds(gapMs)} s without a stream`,
    `an older value on pages for at most ${toSeconds(olderMs)} s`,
    `named by ${signs.join(", ") || "nothing"}`,
    ...troubles,
  ];
  return lines.map((line) => `  ${line}`).join("\n");
}

/** Returns the table of docs/reliability.md. */
export function formatTable(outcomes: readonly Outcome[]): string {
  const head = "| fault | failed | longest delay, s | named by | after, s |";
  const rows = outcomes.map((outcome) => `| ${cellsOf(outcome).join(" | ")} |`);
  return [head, "| --- | --- | --- | --- | --- |", ...rows].join("\n");
}

function cellsOf({ name, noticed, named, skipped }: Outcome): string[] {
  if (skipped !== undefined) return [name, `skipped: ${skipped}`, "", "", ""];
  const delay = toSeconds(noticed.delayMs);
  const first = named.toSorted((a, b) => a.seconds - b.seconds)[0];
  const cells = [name, failuresOf(noticed), delay];
  if (first === undefined) return [...cells, "**nothing**", ""];
  return [...cells, `\`${first.what}\``, first.seconds.toFixed(1)];
}

/** Such as "3 × page 502, 1 × set". */
function failuresOf({ failures, lost }: Noticed): string {
  const counts = [...failures].map(([what, count]) => `${count} × ${what}`);
  if (lost > 0) counts.push(`**${lost} × event lost**`);
  return counts.join(", ") || "none";
}

function toSeconds(ms: number): string {
  return (ms / 1_000).toFixed(1);
}
