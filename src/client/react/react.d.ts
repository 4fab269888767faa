/** The functions of React that the hooks use. Its own types would add those of a browser to every module. */
export function useCallback<T>(
  callback: T,
  dependencies: readonly unknown[],
): T;
export function useEffect(
  effect: () => () => void,
  dependencies: readonly unknown[],
): void;
export function useState<T>(initial: T): [T, (value: T) => void];
export function useSyncExternalStore<T>(
  subscribe: (rerender: () => void) => () => void,
  getSnapshot: () => T,
  getServerSnapshot: () => T,
): T;
