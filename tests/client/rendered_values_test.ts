import { assertEquals } from "@std/assert";
import { renderedValues } from "../../src/client/rendered_values.ts";

Deno.test("renderedValues() finds values that the browser parses after a script has asked, and keeps the first ones", () => {
  let text: string | undefined;
  const document = {
    querySelector: () => text === undefined ? null : { textContent: text },
  };
  Object.defineProperty(globalThis, "document", {
    value: document,
    configurable: true,
  });
  try {
    assertEquals(renderedValues(), {});
    text = '{"public":{"A":';
    assertEquals(renderedValues(), {});
    text = '{"public":{"A":"1"}}';
    assertEquals(renderedValues(), { A: "1" });
    text = '{"public":{"A":"2"}}';
    assertEquals(renderedValues(), { A: "1" });
  } finally {
    Reflect.deleteProperty(globalThis, "document");
  }
});
