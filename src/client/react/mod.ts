/**
 * Hooks for React, with the names and the shapes of REP's own adapter (REP-RFC-0001 §5.5).
 *
 * ```tsx ignore
 * import { useRep } from "@rep/gateway/react";
 *
 * function Headline() {
 *   return <h1>{useRep("TITLE", "Welcome")}</h1>;
 * }
 * ```
 *
 * @module
 */
// @ts-types="./react.d.ts"
import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import {
  get,
  getSecure,
  onChange,
  type PublicVariables,
  type SensitiveVariables,
} from "@rep/gateway/client";
import { onNewBuild } from "../builds/mod.ts";
import { renderedValues } from "../rendered_values.ts";

export type { PublicVariables, SensitiveVariables } from "@rep/gateway/client";

/** A SENSITIVE variable, whose value has to be requested first. */
export interface SecureValue<Value> {
  /** The value; `null` until it has arrived, and after an error. */
  readonly value: Value | null;
  /** Whether the request is in progress. */
  readonly loading: boolean;
  /** Why there is no value. */
  readonly error: Error | null;
}

const LOADING: SecureValue<never> = { value: null, loading: true, error: null };

/**
 * Returns the value of a PUBLIC variable, or the default if it is not set. The component renders again when the value
 * changes. On a server, it returns the value with which the page is sent, and hydration starts with the same value. On a
 * server without a gateway in its process, it returns the default.
 */
export function useRep<
  Name extends keyof PublicVariables & string,
  const Default extends string,
>(
  name: Name,
  defaultValue: Default,
): NonNullable<PublicVariables[Name]> | Default;
/** Returns the value of a PUBLIC variable; `undefined` if it is not set. */
export function useRep<Name extends keyof PublicVariables & string>(
  name: Name,
): PublicVariables[Name];
export function useRep(
  name: string,
  defaultValue?: string,
): string | undefined {
  const subscribe = useCallback(
    (rerender: () => void) => onChange(name, rerender),
    [name],
  );
  return useSyncExternalStore(
    subscribe,
    () => get(name, defaultValue as string),
    () => renderedValues()[name] ?? defaultValue,
  );
}

/** Returns the value of a SENSITIVE variable, which is requested when the component is mounted. */
export function useRepSecure<Name extends keyof SensitiveVariables & string>(
  name: Name,
): SecureValue<NonNullable<SensitiveVariables[Name]>> {
  const [secure, setSecure] = useState<SecureValue<string>>(LOADING);
  useEffect(() => {
    let isMounted = true;
    const update = (result: SecureValue<string>) =>
      isMounted && setSecure(result);
    update(LOADING);
    getSecure(name).then(
      (value) => update({ value, loading: false, error: null }),
      (error) => update({ value: null, loading: false, error }),
    );
    return () => {
      isMounted = false;
    };
  }, [name]);
  return secure as SecureValue<NonNullable<SensitiveVariables[Name]>>;
}

/**
 * Returns the ID of the build that a reload brings, once no gateway delivers the page's build any more; `undefined` until
 * then, on a server, and if an earlier page of the tab was told. It opens the stream of changes.
 */
export function useNewBuild(): string | undefined {
  const [newBuild, setNewBuild] = useState<string | undefined>(undefined);
  useEffect(() => onNewBuild(setNewBuild), []);
  return newBuild;
}
