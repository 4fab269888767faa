import { get, onChange, type PublicVariables } from "@rep/gateway/client";
import { customRef, onScopeDispose, type Ref } from "vue";

/** Returns the value of a PUBLIC variable as a ref, which is updated whenever it changes. */
export function useVariable<Name extends keyof PublicVariables>(name: Name): Readonly<Ref<PublicVariables[Name]>> {
  return customRef((track, trigger) => {
    onScopeDispose(onChange(name, trigger));
    return {
      get() {
        track();
        return get(name);
      },
      set() {}, // only the gateway changes it
    };
  });
}
