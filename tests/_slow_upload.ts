import { serveLocally } from "./_serve.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An upload over HTTP/1.1 whose body the test sends in two halves. */
export interface SlowUpload extends Disposable {
  /** Sends the second half. */
  finish(): Promise<void>;
  /** Reads the first line of the response; an empty text if the connection is closed instead. */
  statusLine(): Promise<string>;
}

/**
 * Sends the head and the first half of the body, as a whole `halfhalf`.
 *
 * @param path `/upload` by default.
 */
export async function startUpload(
  connection: Deno.Conn,
  path = "/upload",
  [first, second]: readonly [string, string] = ["half", "half"],
): Promise<SlowUpload> {
  const send = async (text: string) => {
    await connection.write(encoder.encode(text));
  };
  const length = first.length + second.length;
  await send(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${length}\r\n\r\n${first}`,
  );
  return {
    finish: () => send(second),
    async statusLine() {
      const buffer = new Uint8Array(4_096);
      const size = await connection.read(buffer).catch(() => null);
      const text = decoder.decode(buffer.subarray(0, size ?? 0));
      return text.split("\r\n")[0] ?? "";
    },
    [Symbol.dispose]: () => connection.close(),
  };
}

/** An upstream that says when an upload has begun, and answers with its body. */
export function serveUploads() {
  const begun = Promise.withResolvers<void>();
  const server = serveLocally(async (request) => {
    begun.resolve();
    return new Response(await request.text().catch(() => "broken"));
  });
  return {
    url: server.url,
    begun: begun.promise,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}
