import { DestroyRef, inject, type Signal, signal } from "@angular/core";
import { get, onChange, type PublicVariables } from "@rep/gateway/client";

/** Returns a PUBLIC variable as a signal. Call it where `inject()` works, as in a field of a component. */
export function variable<Name extends keyof PublicVariables & string>(
  name: Name,
): Signal<PublicVariables[Name]> {
  const read = () => get(name) as PublicVariables[Name];
  const value = signal(read());
  inject(DestroyRef).onDestroy(onChange(name, () => value.set(read())));
  return value.asReadonly();
}
