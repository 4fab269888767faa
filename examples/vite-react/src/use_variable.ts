import { get, onChange, type PublicVariables } from "@rep/gateway/client";
import { useCallback, useSyncExternalStore } from "react";

/** Returns the value of a PUBLIC variable. The component renders again whenever it changes. */
export function useVariable<Name extends keyof PublicVariables>(name: Name): PublicVariables[Name] {
  const subscribe = useCallback((onStoreChange: () => void) => onChange(name, onStoreChange), [name]);
  return useSyncExternalStore(subscribe, () => get(name));
}
