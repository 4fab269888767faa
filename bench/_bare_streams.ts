import { STREAM_FORMS } from "../src/core/changes/stream_forms.ts";
import { eventFrame } from "../src/core/changes/tail.ts";

/** The floor of event streams: the least code that sends the gateway's bytes to all of them. */
export class BareStreams {
  readonly #opening = encoder.encode(
    STREAM_FORMS.plain.opening({
      retryMs: 2_000,
      comment: "connected",
      id: Date.now(),
    }),
  );
  readonly #controllers = new Set<
    ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>
  >();
  #count = 0;

  /** Responds to a request with a stream. */
  open(): Response {
    const controllers = this.#controllers;
    const opening = this.#opening;
    let controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>;
    const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
      start(own) {
        controller = own;
        controllers.add(own);
        own.enqueue(opening);
      },
      cancel() {
        controllers.delete(controller);
      },
    });
    return new Response(stream, { headers: HEADERS });
  }

  /** Sends an event to all streams. */
  publish(): void {
    const chunk = encoder.encode(
      eventFrame({
        id: Date.now(),
        name: "A",
        value: `value ${++this.#count}`,
      }),
    );
    for (const controller of this.#controllers) controller.enqueue(chunk);
  }
}

const HEADERS = { "content-type": "text/event-stream" };
const encoder = new TextEncoder();
