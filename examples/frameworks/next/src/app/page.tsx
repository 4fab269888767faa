"use client";
import { useRep, useRepSecure } from "@rep/gateway/react";
import { useState } from "react";

function MapKey() {
  const { value } = useRepSecure("MAP_KEY");
  return <output>{value}</output>;
}

export default function Home() {
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
