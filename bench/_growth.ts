import { fit, type Point } from "./_fit.ts";
import { figure, quantile, type Report } from "./_report.ts";

/** How the cost of some work grows with its size, as it was measured. */
export interface Growth {
  readonly name: string;
  readonly work: string;
  /** What the size counts, in the singular. */
  readonly sizeUnit: string;
  readonly unit: string;
  readonly points: readonly {
    readonly size: number;
    readonly rounds: readonly number[];
  }[];
}

/** Four sizes up to the largest, each a multiple of the one before. */
export function fourSizes(largest: number, factor = 2): number[] {
  return [3, 2, 1, 0].map((power) =>
    Math.max(1, Math.round(largest / factor ** power))
  );
}

/** Measures every size in every round, so that other load on the machine affects all of them. */
export async function measureGrowth(
  description: Omit<Growth, "points">,
  { sizes, rounds }: { sizes: readonly number[]; rounds: number },
  measure: (size: number) => Promise<number>,
): Promise<Growth> {
  const points = sizes.map((size) => ({ size, rounds: [] as number[] }));
  for (let round = 0; round < rounds; round++) {
    for (
      const { size, rounds } of round % 2 === 0 ? points : points.toReversed()
    ) rounds.push(await measure(size));
  }
  return { ...description, points };
}

/** The medians of all rounds. */
export function mediansOf({ points }: Growth): Point[] {
  return points.map(({ size, rounds }) => ({
    size,
    cost: quantile(rounds, 0.5),
  }));
}

/** The cost of each size, and the fit through their medians. */
export function growthReport(growth: Growth): Report {
  const { name, work, sizeUnit, unit, points } = growth;
  const { exponent, slope, r2 } = fit(mediansOf(growth));
  return {
    title: `${name}: ${work}`,
    figures: [
      ...points.map(({ size, rounds }) =>
        figure(`${size.toLocaleString("en")} × ${sizeUnit}`, unit, rounds)
      ),
      figure("exponent (1 is linear)", "", [exponent]),
      figure("R² of that fit", "", [r2]),
      figure(`one more ${sizeUnit}`, unit, [slope]),
    ],
  };
}
