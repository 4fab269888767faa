import { type Figure, figure, type Report } from "./_report.ts";

/** What does the work of a row: the gateway, its floor, and others for comparison. */
export type Subject =
  | "gateway"
  | "floor"
  | "no directory"
  | "Go gateway"
  | "nginx";

/** Something of each subject. */
export type BySubject<T> = Readonly<Partial<Record<Subject, T>>>;

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

/**
 * Measures all subjects in every round, so that other load on the machine affects all of them. The order is reversed in
 * every other round.
 */
export async function alternate<T>(
  rounds: number,
  measures: BySubject<() => Promise<T>>,
): Promise<BySubject<readonly T[]>> {
  const results = mapSubjects(measures, (): T[] => []);
  const subjects = Object.keys(measures) as Subject[];
  for (let round = 0; round < rounds; round++) {
    for (const subject of subjects) {
      const result = await measures[subject]?.();
      if (result !== undefined) results[subject]?.push(result);
    }
    subjects.reverse();
  }
  return results;
}

/** Applies a function to the value of each subject. */
export function mapSubjects<T, U>(
  all: BySubject<T>,
  convert: (one: T) => U,
): BySubject<U> {
  const entries = Object.entries(all);
  return Object.fromEntries(
    entries.map(([subject, one]) => [subject, convert(one)]),
  );
}

/**
 * Returns the gateway's values divided by those of another subject, round by round. A round in which the other took no
 * measurable time has no ratio: CPU time is counted in steps of 10 ms.
 */
export function ratiosOf({ rounds }: Row, subject: Subject): number[] {
  const others = rounds[subject] ?? [];
  const ours = rounds.gateway ?? [];
  const ratios = ours.map((value, round) => value / Number(others[round]));
  return ratios.filter(Number.isFinite);
}

/** The figures of a row: each subject, and the gateway divided by each other one; then the CPU time of each. */
export function rowReport(row: Row): Report {
  const figures: Figure[] = [];
  const subjects = Object.keys(row.rounds) as Subject[];
  for (const subject of subjects) {
    figures.push(figure(subject, row.unit, row.rounds[subject] ?? []));
  }
  for (const subject of subjects) {
    const ratios = subject === "gateway" ? [] : ratiosOf(row, subject);
    if (ratios.length > 0) {
      figures.push(figure(`gateway / ${subject}`, "", ratios));
    }
  }
  for (const [subject, values] of Object.entries(row.cpuUs ?? {})) {
    if (values.length > 0) {
      figures.push(figure(`CPU, ${subject}`, "µs", values));
    }
  }
  return { title: `${row.name}: ${row.work}`, figures };
}
