import { assertEquals, assertRejects } from "@std/assert";
import * as client from "../../../src/client/mod.ts";
import { isIntact } from "../../../src/client/page.ts";
import * as double from "../../../src/client/testing/mod.ts";
import { createGateway } from "../../../src/gateway.ts";

Deno.test("the double has the exports of the client, setVariables(), and replaceVariables()", () => {
  assertEquals(
    Object.keys(double).sort(),
    [...Object.keys(client), "replaceVariables", "setVariables"].sort(),
  );
  assertEquals(Object.keys(double.rep).sort(), Object.keys(client.rep).sort());
});

Deno.test("setVariables() calls the listeners of what changes, also of what is deleted", () => {
  double.setVariables({ A: "1", B: "1" });
  const seen: unknown[][] = [];
  const stop = double.onAnyChange((...change) => void seen.push(change));
  double.setVariables({ A: "1", C: "1" });
  stop();
  double.setVariables({});
  assertEquals(seen, [["B", undefined, "1"], ["C", "1", undefined]]);
});

Deno.test("the double has SENSITIVE variables, and rejects others as the client does", async () => {
  double.setVariables({}, { KEY: "secret" });
  assertEquals(await double.getSecure("KEY"), "secret");
  const message = 'Cannot find "OTHER" among the SENSITIVE variables';
  await assertRejects(
    () => double.getSecure("OTHER"),
    double.REPError,
    message,
  );
});

const PAGE = "<html><head></head><body>Hello</body></html>";

Deno.test("replaceVariables() replaces PUBLIC values of a page, whose hash is then right, and nothing else", async () => {
  await using gateway = await createGateway({
    variables: { REP_PUBLIC_A: "1", REP_PUBLIC_B: "2", REP_SENSITIVE_C: "3" },
    hotReload: true,
  });
  const type = { headers: { "content-type": "text/html" } };
  const sent = await gateway.inject(new Response(PAGE, type));
  const before = await sent.text();
  const value = "</script><!--$&é";
  const after = await double.replaceVariables(before, { A: value });
  const [start, rest] = [payloadOf(before), payloadOf(after)];
  const expected = { ...start, public: { A: value, B: "2" } };
  assertEquals(rest, expected);
  assertEquals(after.replace(SCRIPT, ""), before.replace(SCRIPT, ""));
  const element = elementOf(after);
  assertEquals(await isIntact(element, globalThis as never), true);
});

Deno.test("replaceVariables() rejects a page without a configuration", async () => {
  const message =
    "Cannot replace variables: expected a page with a configuration, got none";
  await assertRejects(
    () => double.replaceVariables(PAGE, {}),
    Error,
    message,
  );
});

/** The element, as a browser ends it. */
const SCRIPT =
  /<script id="__rep__"[^>]*data-rep-integrity="(.*?)">(.*?)<\/script>/s;

function payloadOf(html: string): Record<string, unknown> {
  return JSON.parse(SCRIPT.exec(html)?.[2] ?? "");
}

function elementOf(html: string) {
  const [, integrity = "", textContent = ""] = SCRIPT.exec(html) ?? [];
  return { textContent, getAttribute: () => integrity };
}
