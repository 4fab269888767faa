import { quantile } from "./_report.ts";
import { ratiosOf, type Row, type Subject } from "./_row.ts";

/** The goal of a row: a value, or a ratio to another subject's value. */
export interface Goal {
  readonly row: string;
  /** The subject that the gateway is compared with; without one, the value counts. */
  readonly by?: Subject;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** The goals in `docs/development/performance.md`, in its order. */
const GOALS: readonly Goal[] = [
  { row: "health", by: "floor", atLeast: 0.8 },
  { row: "health", by: "Go gateway", atLeast: 1 },
  { row: "static_page", by: "floor", atLeast: 0.8 },
  { row: "static_page", by: "Go gateway", atLeast: 1 },
  { row: "static_asset", by: "floor", atLeast: 0.8 },
  { row: "static_asset", by: "Go gateway", atLeast: 1 },
  { row: "compressed_page", by: "floor", atLeast: 0.7 },
  { row: "not_found", by: "floor", atLeast: 0.65 },
  { row: "limited_key", by: "floor", atLeast: 0.45 },
  { row: "distinct_keys", atLeast: 3_000 },
  { row: "stored_keys", atLeast: 99 },
  { row: "proxied_page", by: "floor", atLeast: 0.7 },
  { row: "proxied_page", by: "Go gateway", atLeast: 0.95 },
  { row: "proxied_asset", by: "floor", atLeast: 0.7 },
  { row: "proxied_asset", by: "Go gateway", atLeast: 0.95 },
  { row: "start", by: "floor", atMost: 3.3 },
  { row: "start", by: "no directory", atMost: 1.2 },
  { row: "idle_memory", atMost: 55 },
  { row: "last_delivery", by: "floor", atMost: 1.1 },
  { row: "stream_open", by: "floor", atMost: 1.3 },
  { row: "stream_memory", by: "floor", atMost: 1.1 },
];

/** Returns the goals of a row. */
export function goalsOf({ name }: Row): readonly Goal[] {
  return GOALS.filter(({ row }) => row === name);
}

/** Whether the median of the rounds reaches a goal; `undefined` if it was not measured. */
export function isMet(row: Row, goal: Goal): boolean | undefined {
  const values = valuesFor(row, goal);
  if (values.length === 0) return undefined;
  const { atLeast = -Infinity, atMost = Infinity } = goal;
  const median = quantile(values, 0.5);
  return atLeast <= median && median <= atMost;
}

/** Returns the values, or the ratios, that a goal is about; none if they were not measured. */
export function valuesFor(row: Row, { by }: Goal): readonly number[] {
  if (by === undefined) return row.rounds.gateway ?? [];
  return row.rounds[by] === undefined ? [] : ratiosOf(row, by);
}
