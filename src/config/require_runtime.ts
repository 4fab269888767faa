/**
 * Checks that the runtime has what the gateway needs: a missing function would be a `TypeError` somewhere in the middle.
 *
 * @throws {Error} If the runtime is too old.
 */
export function requireRuntime(): void {
  if ("groupBy" in Map) return;
  throw new Error(
    "Cannot use @rep/gateway: expected Map.groupBy(), as in Node.js 22 or later",
  );
}
