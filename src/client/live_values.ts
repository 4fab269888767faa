import {
  createChangeStream,
  DELETE,
  type StreamStatus,
} from "./change_stream.ts";
import type { ClientEnvironment, StreamMessage } from "./environment.ts";
import { createListeners } from "./listeners.ts";
import { freezeValues, type Page, type Values } from "./payload.ts";

/** Receives the new value of a variable, `undefined` if it was deleted, and the old one, `undefined` if it is new. */
export type ChangeCallback = (
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/** Receives the name of a variable and the arguments of {@linkcode ChangeCallback}. */
export type AnyChangeCallback = (
  key: string,
  newValue: string | undefined,
  oldValue: string | undefined,
) => void;

/**
 * Creates the PUBLIC variables of a page, which are kept up to date while there are subscribers. The functions are those
 * of {@linkcode Client}.
 */
export function createLiveValues(
  page: Page | undefined,
  environment: ClientEnvironment,
) {
  let values = freezeValues(page?.values);
  const changes = createListeners<Parameters<AnyChangeCallback>>(environment);
  const statuses = createListeners<[StreamStatus]>(environment);
  const url = page?.changes;
  const isWanted = () => changes.size() > 0;
  const onStatus = () => statuses.call(status());
  const stream = url &&
    createChangeStream(environment, { url, isWanted, onEvent, onStatus });

  function onEvent({ type, data }: StreamMessage) {
    const { key, value } = JSON.parse(data); // the browser reports a SyntaxError
    const newValue = type === DELETE ? undefined : value;
    const oldValue = values[key];
    if (newValue === oldValue) return; // the gateway may resend the whole state
    values = applyChange(values, key, newValue);
    changes.call(key, newValue, oldValue);
  }

  function status(): StreamStatus {
    return stream?.status() ?? { state: "closed", lastEventId: null };
  }

  function onAnyChange(callback: AnyChangeCallback) {
    if (!stream) {
      environment.console.warn("[REP] Hot reload is not available"); // REP-RFC-0001 §5.2
      return () => {};
    }
    const remove = changes.add(callback);
    stream.refresh();
    return () => {
      remove();
      stream.refresh();
    };
  }

  return {
    getAll: () => values,
    onChange: (key: string, callback: ChangeCallback) =>
      onAnyChange((changedKey, newValue, oldValue) =>
        changedKey === key && callback(newValue, oldValue)
      ),
    onAnyChange,
    listenInBackground: () => stream?.listenInBackground(),
    status,
    onStatus: statuses.add,
  };
}

function applyChange(
  values: Values,
  key: string,
  value: string | undefined,
): Values {
  const { [key]: _, ...others } = values;
  return freezeValues(
    value === undefined ? others : { ...values, [key]: value },
  );
}
