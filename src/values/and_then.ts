/** Continues with a value: at once if it is not a promise, since `Deno.serve` responds sooner without one. */
export function andThen<T, U>(
  value: T | Promise<T>,
  next: (value: T) => U | Promise<U>,
): U | Promise<U> {
  return value instanceof Promise ? value.then(next) : next(value);
}
