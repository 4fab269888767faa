import { getSecure } from "@rep/gateway/client";
import { useState } from "react";
import { useVariable } from "./use_variable";

export function App() {
  const title = useVariable("TITLE");
  const plan = useVariable("PLAN");
  const [mapKey, setMapKey] = useState("");

  async function decrypt() {
    setMapKey(await getSecure("MAP_KEY"));
  }

  return (
    <main>
      <h1>{title}</h1>
      <p>Plan: {plan}</p>
      <button type="button" onClick={decrypt}>Decrypt</button>
      <output>{mapKey}</output>
    </main>
  );
}
