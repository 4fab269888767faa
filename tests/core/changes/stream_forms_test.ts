import { assertEquals } from "@std/assert";
import {
  onceForEachForm,
  STREAM_FORMS,
} from "../../../src/core/changes/stream_forms.ts";
import { EventStreamParser } from "../../model/_event_stream_parser.ts";
import { readSse } from "../../_sse.ts";

const { plain, with_heartbeat_events } = STREAM_FORMS;
const OPENING = { retryMs: 2000, comment: "connected", id: 3 };

Deno.test("the plain form has an opening and heartbeats that dispatch no event", async () => {
  const text = plain.opening(OPENING) + plain.heartbeat(4);
  assertEquals(
    text,
    "retry: 2000\n: connected\nid: 3\n\n: heartbeat\nid: 4\n\n",
  );
  assertEquals(await readSse(new Response(text)).next(), undefined);
});

Deno.test("the plain form omits the id of the opening if there is none", () => {
  assertEquals(
    plain.opening({ ...OPENING, id: undefined }),
    "retry: 2000\n: connected\n\n",
  );
});

Deno.test("the form with heartbeat events dispatches an event after each cursor, which it keeps", () => {
  const heard: string[] = [];
  const parser = new EventStreamParser({
    onEvent: (type, data) => heard.push(`${type} ${data}`),
    onLastEventId: (id) => heard.push(id),
    onRetry: (ms) => heard.push(`${ms} ms`),
  });
  parser.feed(
    with_heartbeat_events.opening(OPENING) + with_heartbeat_events.heartbeat(4),
  );
  const event = "rep:heartbeat {}";
  // The parser reports the id at each blank line.
  assertEquals(heard, ["2000 ms", "3", "3", event, "4", "4", event]);
});

Deno.test("onceForEachForm() writes the same bytes for all streams of a form", () => {
  let writes = 0;
  const bytesOf = onceForEachForm((form) => {
    writes++;
    return new TextEncoder().encode(form.heartbeat(1));
  });
  const first = bytesOf("plain");
  const second = bytesOf("with_heartbeat_events");
  const third = bytesOf("plain");
  assertEquals([writes, first === third, first === second], [2, true, false]);
});
