import { assertEquals } from "@std/assert";
import {
  eventFrame,
  heartbeatFrame,
  openingFrame,
} from "../../src/changes/frame.ts";
import { readSse } from "../_sse.ts";

Deno.test("eventFrame() writes the lines event, data and id of an update, in this order", () => {
  assertEquals(
    eventFrame({
      id: 1708267830000,
      name: "FEATURE_FLAGS",
      value: "dark-mode",
    }),
    'event: rep:config:update\ndata: {"key":"FEATURE_FLAGS","tier":"public","value":"dark-mode"}\nid: 1708267830000\n\n',
  );
});

Deno.test("eventFrame() omits the value of a deletion", () => {
  assertEquals(
    eventFrame({ id: 7, name: "OLD", value: undefined }),
    'event: rep:config:delete\ndata: {"key":"OLD","tier":"public"}\nid: 7\n\n',
  );
});

const VALUES = {
  "an empty value": "",
  "line breaks": "a\r\nb\rc\nd",
  "line separators": "a\u2028b\u2029c",
  "emoji": "👩‍👩‍👧 é \u{1F680}",
  "markup that ends a script": "</script><!--<script>",
  "NUL": "a\0b",
  "a byte order mark": "\uFEFFa",
  "text that looks like a message":
    "\n\nevent: rep:config:delete\ndata: {}\nid: 9\n\n",
  "60,000 characters": "é".repeat(30_000) + "x".repeat(30_000),
};

for (const [name, value] of Object.entries(VALUES)) {
  Deno.test(`eventFrame() preserves ${name} for an SSE parser`, async () => {
    const reader = readSse(
      new Response(eventFrame({ id: 5, name: "X", value })),
    );
    assertEquals(await reader.next(), {
      event: "rep:config:update",
      data: { key: "X", tier: "public", value },
      id: 5,
    });
    assertEquals(await reader.next(), undefined);
  });
}

Deno.test("openingFrame() and heartbeatFrame() dispatch no event", async () => {
  const text = openingFrame({ retryMs: 2000, comment: "connected", id: 3 }) +
    heartbeatFrame(4);
  assertEquals(
    text,
    "retry: 2000\n: connected\nid: 3\n\n: heartbeat\nid: 4\n\n",
  );
  assertEquals(await readSse(new Response(text)).next(), undefined);
});

Deno.test("openingFrame() omits the id if there is none", () => {
  assertEquals(
    openingFrame({ retryMs: 2000, comment: "busy", id: undefined }),
    "retry: 2000\n: busy\n\n",
  );
});
