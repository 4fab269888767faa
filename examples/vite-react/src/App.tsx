import { useRep, useRepSecure } from "@rep/gateway/react";
import { useState } from "react";

export function App() {
  const title = useRep("TITLE");
  const plan = useRep("PLAN");
  const [isDecrypted, setDecrypted] = useState(false);

  return (
    <main>
      <h1>{title}</h1>
      <p>Plan: {plan}</p>
      <button type="button" onClick={() => setDecrypted(true)}>Decrypt</button>
      <output>{isDecrypted && <MapKey />}</output>
    </main>
  );
}

function MapKey() {
  const { value, error } = useRepSecure("MAP_KEY");
  return error?.message ?? value;
}
