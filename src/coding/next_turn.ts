/** Lets other work run first: requests that have arrived, and timers. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}
