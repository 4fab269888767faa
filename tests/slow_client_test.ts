import { assert, assertEquals } from "@std/assert";
import { createGateway } from "../src/gateway.ts";
import { readSse } from "./_sse.ts";

const OTHERS = 1_000;
const LARGE = 110; // of 60 kB each: more than the 4 MB that the kernel buffers for a stalled client
const SMALL = 10;

/** Opens a stream, and reads nothing but the head of the response. */
async function stalledClient(port: number): Promise<Deno.TcpConn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  await connection.write(
    new TextEncoder().encode(
      "GET /rep/changes HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ),
  );
  const byte = new Uint8Array(1);
  for (let head = ""; !head.endsWith("\r\n\r\n");) {
    await connection.read(byte);
    head += String.fromCharCode(...byte);
  }
  return connection;
}

/** Decodes the rest of a chunked response from a socket (RFC 9112 §7.1). */
function bodyOf(
  connection: Deno.TcpConn,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let text = "";
  const latin1 = new TextDecoder("latin1"); // one character per byte, since sizes count bytes
  return connection.readable.pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(bytes, controller) {
        text += latin1.decode(bytes);
        for (let size; (size = /^([0-9a-f]+)\r\n/i.exec(text));) {
          const length = parseInt(size[1] ?? "", 16);
          const start = size[0].length;
          if (text.length < start + length + 2) return;
          controller.enqueue(
            Uint8Array.from(
              text.slice(start, start + length),
              (c) => c.charCodeAt(0),
            ),
          );
          text = text.slice(start + length + 2);
        }
      },
    }),
  );
}

Deno.test("a client that stops reading receives every event later, and slows no other client", async () => {
  let value = "0";
  await using gateway = await createGateway({
    hotReload: true,
    variables: () => ({ REP_PUBLIC_A: value }),
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    gateway.fetch,
  );
  const url = `http://127.0.0.1:${server.addr.port}/rep/changes`;
  const publish = async (next: string) => {
    value = next;
    await gateway.reload();
  };
  const open = async (length: number) => {
    const readers = await Promise.all(
      Array.from({ length }, async () => readSse(await fetch(url))),
    );
    await Promise.all(readers.map((reader) => reader.pull()));
    return readers;
  };
  /** Returns how long it takes until every reader has `SMALL` more events. */
  const measure = async (
    readers: Awaited<ReturnType<typeof open>>,
    round: string,
  ) => {
    const start = performance.now();
    const all = Promise.all(readers.map((reader) => reader.take(SMALL)));
    for (let i = 1; i <= SMALL; i++) await publish(`${round} ${i}`);
    for (const messages of await all) {
      assertEquals(
        messages.map(({ data }) => data.value),
        Array.from({ length: SMALL }, (_, i) => `${round} ${i + 1}`),
      );
    }
    return performance.now() - start;
  };

  try {
    const readers = await open(OTHERS);
    await measure(readers, "warm-up");
    const without = await measure(readers, "without");
    const stalled = await stalledClient(server.addr.port);
    const fast = readers.slice(0, 1); // reads the large events, so that each is out before the next
    await Promise.all(readers.slice(1).map((reader) => reader.close()));
    for (let i = 1; i <= LARGE; i++) {
      await publish(`${i}${"x".repeat(60_000)}`);
      await fast[0]?.take(1);
    }
    const crowd = [...fast, ...await open(OTHERS - 1)];
    const beside = await measure(crowd, "beside");
    assert(
      beside < 10 * without + 1_000,
      `${beside} ms beside a stalled client, ${without} ms without one`,
    );

    const late = readSse(new Response(bodyOf(stalled)));
    const messages = await late.take(LARGE + SMALL);
    const numbers = messages.map(({ data }) => data.value?.replace(/x+$/, ""));
    const expected = Array.from(
      { length: LARGE + SMALL },
      (_, i) => i < LARGE ? `${i + 1}` : `beside ${i + 1 - LARGE}`,
    );
    assertEquals(numbers, expected);
    await late.close();
    const ends = crowd.map((reader) => reader.next());
    await gateway.close();
    assertEquals(
      (await Promise.all(ends)).filter((message) => message !== undefined),
      [],
    );
  } finally {
    await gateway.close();
    await server.shutdown();
  }
});
