import { type Figure, figure, type Report } from "./_report.ts";

/** What does the work of a row: the gateway, its floor, and others for comparison. */
export type Subject =
  | "gateway"
  | "floor"
  | "no directory"
  | "fetch"
  | "memory store"
  | "Go gateway"
  | "nginx"
  | "mercure";

/** One row of the tables in `docs/development/performance.md`, as it was measured. */
export interface Row {
  readonly name: string;
  readonly work: string;
  readonly unit: string;
  /** The value of each round; round by round, the subjects were measured one right after the other. */
  readonly rounds: BySubject<readonly number[]>;
  /** The server's CPU time per request in each round, in microseconds. */
  readonly cpuUs?: BySubject<readonly number[]>;
  /** When the row was measured again after the full run (RFC 3339). */
  readonly measuredAt?: string;
}

/** Something of each subject. */
export type BySubject<T> = Readonly<Partial<Record<Subject, T>>>;

/**
 * Measures all subjects in every round, so that other load on the machine affects all of them. The order is reversed in
 * every other round.
 */
export async function alternate<T>(
  rounds: number,
  measures: BySubject<() => Promise<T>>,
): Promise<BySubject<readonly T[]>> {
  const entries = Object.entries(measures).map(([subject, measure]) => ({
    subject,
    measure,
    results: [] as T[],
  }));
  for (let round = 0; round < rounds; round++) {
    for (
      const { measure, results } of round % 2 === 0
        ? entries
        : entries.toReversed()
    ) results.push(await measure());
  }
  return Object.fromEntries(
    entries.map(({ subject, results }) => [subject, results]),
  );
}

/** Applies a function to what each subject has. */
export function mapSubjects<T, U>(
  all: BySubject<T>,
  convert: (one: T, subject: Subject) => U,
): BySubject<U> {
  const entries = Object.entries(all).map((
    [subject, one],
  ) => [subject, convert(one, subject as Subject)]);
  return Object.fromEntries(entries);
}

/** Returns the gateway's values divided by those of another subject, round by round. */
export function ratiosOf(rounds: Row["rounds"], subject: Subject): number[] {
  const others = rounds[subject] ?? [];
  return (rounds.gateway ?? []).map((value, index) =>
    value / Number(others[index])
  );
}

/** The figures of a row: each subject, and the gateway divided by each other one; then the same of CPU time. */
export function rowReport(
  { name, work, unit, rounds, cpuUs = {} }: Row,
): Report {
  return {
    title: `${name}: ${work}`,
    figures: [
      ...figuresOf(rounds, unit, ""),
      ...figuresOf(cpuUs, "µs", "CPU, "),
    ],
  };
}

function figuresOf(
  rounds: Row["rounds"],
  unit: string,
  prefix: string,
): Figure[] {
  const present = mapSubjects(
    rounds,
    (values, subject) => figure(`${prefix}${subject}`, unit, values),
  );
  const { gateway, ...others } = mapSubjects(
    rounds,
    (_, subject) =>
      figure(`${prefix}gateway / ${subject}`, "", ratiosOf(rounds, subject)),
  );
  return [
    ...Object.values(present),
    ...gateway === undefined ? [] : Object.values(others),
  ];
}

/** Whether a larger value is better. */
export function isRate({ unit }: Pick<Row, "unit">): boolean {
  return unit.endsWith("/s");
}
