import { component$, useSignal, useVisibleTask$ } from "@builder.io/qwik";
import { get, getSecure, onChange } from "@rep/gateway/client";

export default component$(() => {
  const title = useSignal<string | undefined>(get("TITLE"));
  const mapKey = useSignal("");
  useVisibleTask$(
    () => onChange("TITLE", (value) => (title.value = value)),
    { strategy: "document-ready" },
  );
  return (
    <main>
      <h1>{title.value}</h1>
      <button
        type="button"
        onClick$={async () => (mapKey.value = await getSecure("MAP_KEY"))}
      >
        Decrypt
      </button>
      <output>{mapKey.value}</output>
    </main>
  );
});
