import { get, getSecure, onChange } from "@rep/gateway/client";
import { createSignal, onCleanup, onMount } from "solid-js";

export default function Home() {
  const [title, setTitle] = createSignal(get("TITLE"));
  const [mapKey, setMapKey] = createSignal("");
  onMount(() => onCleanup(onChange("TITLE", setTitle)));
  return (
    <main>
      <h1>{title()}</h1>
      <button
        type="button"
        onClick={async () => setMapKey(await getSecure("MAP_KEY"))}
      >
        Decrypt
      </button>
      <output>{mapKey()}</output>
    </main>
  );
}
