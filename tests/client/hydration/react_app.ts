import { createElement } from "react";
import { useRep } from "../../../src/client/react/mod.ts";

/** A component of React whose title is a variable. */
export function App() {
  return createElement("h1", null, useRep("TITLE", "none"));
}
