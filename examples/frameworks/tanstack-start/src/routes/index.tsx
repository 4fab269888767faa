import { useRep, useRepSecure } from "@rep/gateway/react";
import { createFileRoute } from "@tanstack/react-router";
import { useState } from "react";

export const Route = createFileRoute("/")({ component: Home });

function MapKey() {
  const { value } = useRepSecure("MAP_KEY");
  return <output>{value}</output>;
}

function Home() {
  const title = useRep("TITLE");
  const [isShown, setShown] = useState(false);
  return (
    <main>
      <h1>{title}</h1>
      <button type="button" onClick={() => setShown(true)}>Decrypt</button>
      {isShown && <MapKey />}
    </main>
  );
}
