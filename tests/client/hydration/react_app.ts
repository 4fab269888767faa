import { createElement } from "react";
import { useRep, useRepSecure } from "../../../src/client/react/mod.ts";

/** A component of React that shows a PUBLIC variable, a SENSITIVE one, and why another one cannot be read. */
export function App() {
  const key = useRepSecure("KEY");
  const absent = useRepSecure("ABSENT");
  return createElement(
    "main",
    null,
    createElement("h1", null, useRep("TITLE", "none")),
    createElement("p", null, key.loading ? "loading" : key.value),
    createElement(
      "small",
      null,
      absent.loading ? "loading" : absent.error?.name,
    ),
  );
}
