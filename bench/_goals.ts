import { quantile } from "./_report.ts";
import { ratiosOf, type Row, type Subject } from "./_row.ts";

/** What a row is to reach: a value, or a ratio to another subject's. */
export interface Goal {
  /** The subject that the gateway is compared with; without one, the value counts. */
  readonly by?: Subject;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** The goals in `docs/development/performance.md`, by the name of the row. */
const GOALS: Readonly<Record<string, readonly Goal[]>> = {
  health: [{ by: "floor", atLeast: 0.8 }],
  static_page: [{ by: "floor", atLeast: 0.8 }, {
    by: "Go gateway",
    atLeast: 3,
  }],
  static_asset: [{ by: "floor", atLeast: 0.8 }, {
    by: "Go gateway",
    atLeast: 2,
  }],
  limited_key: [{ by: "floor", atLeast: 0.8 }],
  distinct_keys: [{ atLeast: 3_000 }],
  stored_keys: [{ atLeast: 99 }],
  proxied_page: [{ by: "floor", atLeast: 0.9 }, {
    by: "Go gateway",
    atLeast: 1,
  }],
  proxied_asset: [{ by: "floor", atLeast: 0.95 }, {
    by: "Go gateway",
    atLeast: 1,
  }],
  start: [{ by: "floor", atMost: 3.3 }, { by: "no directory", atMost: 1.2 }],
  idle_memory: [{ atMost: 55 }],
  last_delivery: [{ by: "floor", atMost: 1.1 }],
  stream_open: [{ by: "floor", atMost: 1.3 }],
  stream_memory: [{ by: "floor", atMost: 1.1 }],
  large_replay: [{ atMost: 300 }],
  start_many: [{ atMost: 1_000 }],
  reload_many: [{ atMost: 1_000 }],
};

/** Returns the goals of a row. */
export function goalsOf({ name }: Row): readonly Goal[] {
  return GOALS[name] ?? [];
}

/** Returns where a row stands in the table: the ceiling, which has no goal, is the first. */
export function positionOf({ name }: Row): number {
  return Object.keys(GOALS).indexOf(name);
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
  return row.rounds[by] === undefined ? [] : ratiosOf(row.rounds, by);
}
