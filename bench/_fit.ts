/** A point of a measured curve. */
export interface Point {
  readonly size: number;
  readonly cost: number;
}

/** How a cost grows with the size of the work. */
export interface Fit {
  /** The exponent of `cost = a · size^exponent`: 1 is linear, 2 quadratic. */
  readonly exponent: number;
  /** The cost of one more unit, by a straight line with an offset. */
  readonly slope: number;
  /** The share of the variance of the logarithms that the exponent explains: 1 is all of it. */
  readonly r2: number;
}

/** Fits a power and a straight line to the points, by least squares. */
export function fit(points: readonly Point[]): Fit {
  const power = line(
    points.map(({ size, cost }) => [Math.log(size), Math.log(cost)]),
  );
  const straight = line(points.map(({ size, cost }) => [size, cost]));
  return { exponent: power.slope, slope: straight.slope, r2: power.r2 };
}

function line(
  points: readonly (readonly [number, number])[],
): { slope: number; r2: number } {
  const [x, y] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const covariance = mean(points.map(([a, b]) => (a - x) * (b - y)));
  const [varianceX, varianceY] = [
    mean(points.map(([a]) => (a - x) ** 2)),
    mean(points.map(([, b]) => (b - y) ** 2)),
  ];
  return {
    slope: covariance / varianceX,
    r2: varianceY === 0 ? 1 : covariance ** 2 / varianceX / varianceY,
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
