/**
 * Composables for Vue, with the names and the shapes of REP's own adapter (REP-RFC-0001 §5.5). Call them in `setup()`.
 *
 * ```ts ignore
 * import { useRep } from "@rep/gateway/vue";
 *
 * const title = useRep("TITLE", "Welcome"); // a ref: {{ title }} in the template
 * ```
 *
 * @module
 */
import {
  getCurrentInstance,
  getCurrentScope,
  onMounted,
  onScopeDispose,
  type Ref,
  shallowRef,
} from "vue";
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

/**
 * Returns a reference to the value of a PUBLIC variable, or to the default if it is not set. The reference follows the
 * variable until the component is unmounted. On a server, it contains the value with which the page is sent, and hydration
 * starts with the same value. On a server without a gateway in its process, it contains the default.
 */
export function useRep<
  Name extends keyof PublicVariables & string,
  const Default extends string,
>(
  name: Name,
  defaultValue: Default,
): Readonly<Ref<NonNullable<PublicVariables[Name]> | Default>>;
/** Returns a reference to the value of a PUBLIC variable; `undefined` if it is not set. */
export function useRep<Name extends keyof PublicVariables & string>(
  name: Name,
): Readonly<Ref<PublicVariables[Name]>>;
export function useRep(
  name: string,
  defaultValue?: string,
): Readonly<Ref<string | undefined>> {
  const value = shallowRef<string | undefined>(
    get(name, defaultValue as string),
  );
  if (!("document" in globalThis)) return value; // a server has no changes to listen to
  if (isHydrating()) {
    value.value = renderedValues()[name] ?? defaultValue;
    onMounted(() => value.value = get(name, defaultValue as string));
  }
  const stop = onChange(
    name,
    (newValue) => value.value = newValue ?? defaultValue,
  );
  if (getCurrentScope()) onScopeDispose(stop);
  return value;
}

/** Returns whether the component that is being set up hydrates HTML of a server. Only then does it have an element. */
function isHydrating(): boolean {
  return Boolean(getCurrentInstance()?.vnode.el);
}

/**
 * Requests the value of a SENSITIVE variable and returns a reference to it, which is `null` until the value has arrived.
 * It stays `null` after an error, which is reported to the `error` listeners and the console of the page.
 */
export function useRepSecure<Name extends keyof SensitiveVariables & string>(
  name: Name,
): Readonly<Ref<NonNullable<SensitiveVariables[Name]> | null>> {
  const value = shallowRef<string | null>(null);
  if ("document" in globalThis) {
    getSecure(name).then((secret) => value.value = secret, reportError);
  }
  return value as Ref<NonNullable<SensitiveVariables[Name]> | null>;
}

/**
 * Returns a reference to the ID of the build that a reload brings, once no gateway delivers the page's build any more;
 * `undefined` until then, on a server, and if an earlier page of the tab was told. It opens the stream of changes.
 */
export function useNewBuild(): Readonly<Ref<string | undefined>> {
  const build = shallowRef<string | undefined>(undefined);
  if (!("document" in globalThis)) return build;
  const stop = onNewBuild((newBuild) => build.value = newBuild);
  if (getCurrentScope()) onScopeDispose(stop);
  return build;
}
