import { assertEquals } from "@std/assert";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import {
  useNewBuild,
  useRep,
  useRepSecure,
} from "../../../src/client/react/mod.ts";

Deno.test("useRep() and useRepSecure() render their defaults on a server", () => {
  function Page() {
    const { value, loading, error } = useRepSecure("KEY");
    return createElement(
      "p",
      null,
      useRep("TITLE", "none"),
      String(useRep("OTHER")),
      String([value, loading, error]),
    );
  }
  const html = renderToString(createElement(Page));
  assertEquals(
    html.replaceAll("<!-- -->", " "),
    "<p>none undefined ,true,</p>",
  );
});

Deno.test("useNewBuild() knows of no build on a server", () => {
  const html = renderToString(createElement(() => String(useNewBuild())));
  assertEquals(html, "undefined");
});
