import { assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { gunzipSync } from "node:zlib";
import {
  decodeContent,
  encodeContent,
  filterAcceptEncoding,
} from "../../../src/content/coding/content_encoding.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const nextTurn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

type Bytes = Uint8Array<ArrayBuffer>;

const TEXT = "<p>Grüße</p>".repeat(500);
const PLAIN = new TextEncoder().encode(TEXT);

async function encode(bytes: Bytes, format: CompressionFormat) {
  return await new Response(
    new Response(bytes).body!.pipeThrough(new CompressionStream(format)),
  ).bytes();
}

function response(
  body: BodyInit | null,
  coding: string,
  headers: Record<string, string> = {},
): Response {
  return new Response(body, {
    headers: { "content-encoding": coding, ...headers },
  });
}

Deno.test("decodeContent() decodes gzip and br, whatever their case", async () => {
  for (
    const [coding, format] of [
      ["gzip", "gzip"],
      ["x-gzip", "gzip"],
      ["GZip", "gzip"],
      ["br", "brotli"],
    ]
  ) {
    const bytes = await encode(PLAIN, format as CompressionFormat);
    assertEquals(
      await decodeContent(response(bytes, coding!)).text(),
      TEXT,
      coding,
    );
  }
});

Deno.test("decodeContent() keeps the status, and all headers but the coding", async () => {
  const headers = {
    "content-type": "text/html",
    "etag": '"a"',
    "vary": "Accept-Encoding",
  };
  const answer = decodeContent(
    new Response(await encode(PLAIN, "gzip"), {
      status: 404,
      headers: { ...headers, "content-encoding": "gzip" },
    }),
  );
  await answer.body?.cancel();
  assertEquals(answer.status, 404);
  assertEquals(Object.fromEntries(answer.headers), headers);
});

Deno.test("decodeContent() returns a response unchanged if it is not encoded or has an unsupported coding", () => {
  const plain = new Response("x", {
    headers: { "content-length": "1", "etag": '"a"' },
  });
  assertStrictEquals(decodeContent(plain), plain);
  for (
    const coding of [
      "identity",
      "",
      "zstd",
      "deflate",
      "gzip, zstd",
      "zstd, gzip",
      "gzip, gzip",
      "deflate,identity , gzip",
      "constructor",
    ]
  ) {
    const unsupported = response("x", coding);
    assertStrictEquals(decodeContent(unsupported), unsupported, coding);
  }
});

Deno.test("decodeContent() accepts responses without a body: for HEAD and with 304", () => {
  const head = decodeContent(
    response(null, "gzip"),
  );
  assertEquals([head.body, [...head.headers]], [null, []]);
  const notModified = decodeContent(
    new Response(null, {
      status: 304,
      headers: { "content-encoding": "br", "etag": '"a"' },
    }),
  );
  assertEquals([notModified.status, [...notModified.headers]], [304, [[
    "etag",
    '"a"',
  ]]]);
});

Deno.test("decodeContent() makes the stream fail for invalid and truncated content", async () => {
  for (
    const [coding, format] of [["gzip", "gzip"], ["br", "brotli"]] as const
  ) {
    const whole = await encode(PLAIN, format);
    await assertRejects(
      () => decodeContent(response(new Uint8Array(9).fill(7), coding)).text(),
      TypeError,
    );
    if (format !== "brotli") {
      await assertRejects(
        () =>
          decodeContent(response(whole.subarray(0, whole.length / 2), coding))
            .text(),
        TypeError,
      );
    }
  }
});

Deno.test("decodeContent() reports invalid content once, and not a body that broke off", async () => {
  const reported: string[] = [];
  const toError = (error: unknown) => {
    reported.push(String(error));
    return new RangeError("reported");
  };
  const broken = new ReadableStream({
    start: (controller) => controller.error(new Error("gone")),
  });
  await assertRejects(
    () => decodeContent(response(broken, "gzip"), toError).text(),
    Error,
    "gone",
  );
  assertEquals(reported, []);
  for (
    const bytes of [
      new Uint8Array(9).fill(7),
      (await encode(PLAIN, "gzip")).fill(7, 20),
    ]
  ) {
    await assertRejects(
      () => decodeContent(response(bytes, "gzip"), toError).text(),
      RangeError,
      "reported",
    );
  }
  assertEquals(reported.length, 2);
});

Deno.test("decodeContent() decodes each chunk as soon as it arrives", async () => {
  const { readable, writable } = new TransformStream<Bytes, Bytes>();
  const reader = decodeContent(response(readable, "gzip")).body!.getReader();
  const writer = writable.getWriter();
  const { createGzip } = await import("node:zlib");
  const gzip = createGzip();
  gzip.on("data", (chunk: Bytes) => void writer.write(new Uint8Array(chunk)));
  gzip.write("first");
  gzip.flush();
  assertEquals(new TextDecoder().decode((await reader.read()).value), "first");
  await reader.cancel();
  gzip.destroy();
});

Deno.test("decodeContent() ignores what follows the first member of gzip, as browsers do", async () => {
  const bytes = await encode(PLAIN, "gzip");
  const rests = ["\n", "<!-- served in 3 ms -->", "\x1f\x8bxx", "\0\0", bytes];
  for (const rest of rests) {
    const whole = decodeContent(response(new Blob([bytes, rest]), "gzip"));
    assertEquals(await whole.text(), TEXT, `${rest}`);
    const later = await new Blob([rest]).bytes();
    const divided = ReadableStream.from<Bytes>([bytes, later]);
    assertEquals(
      await decodeContent(response(divided, "gzip")).text(),
      TEXT,
      `then ${rest}`,
    );
  }
});

Deno.test("decodeContent() decodes an empty body as empty content, whether or not its length is known", async () => {
  for (const coding of ["gzip", "br"]) {
    assertEquals(
      await decodeContent(response(ReadableStream.from<Bytes>([]), coding))
        .text(),
      "",
    );
    assertEquals(
      await decodeContent(response("", coding, { "content-length": "0" }))
        .text(),
      "",
    );
  }
});

/** Returns gzip whose header has all optional fields (RFC 1952 §2.3). */
async function gzipWithFields() {
  const [, , , , ...rest] = await encode(PLAIN, "gzip");
  const [fixed, data] = [rest.slice(0, 6), rest.slice(6)];
  const fields = [
    3,
    0,
    1,
    2,
    3,
    ...new TextEncoder().encode("page.html\0a comment\0"),
    7,
    7,
  ];
  return Uint8Array.from([
    0x1f,
    0x8b,
    8,
    2 | 4 | 8 | 16,
    ...fixed,
    ...fields,
    ...data,
  ]);
}

/** A body that arrives in chunks of a few bytes. */
function divided(bytes: Bytes, size: number) {
  const chunks = Array.from(
    { length: Math.ceil(bytes.length / size) },
    (_, index) => bytes.subarray(index * size),
  );
  return ReadableStream.from(chunks.map((chunk) => chunk.slice(0, size)));
}

Deno.test("decodeContent() reads a header however it is divided, with all the fields that it may have", async () => {
  const bodies = [
    ["gzip", await gzipWithFields()],
    ["gzip", await encode(PLAIN, "gzip")],
  ] as const;
  for (const [coding, bytes] of bodies) {
    for (const size of [1, 2, 3, 11, 50]) {
      assertEquals(
        await decodeContent(response(divided(bytes, size), coding)).text(),
        TEXT,
        `${coding}, ${size}`,
      );
    }
  }
});

Deno.test("decodeContent() rejects a gzip header that is incomplete or does not end", async () => {
  const header = (await gzipWithFields()).slice(0, 20);
  for (
    const bytes of [
      header.slice(0, 1),
      (await encode(PLAIN, "gzip")).slice(0, 10), // without data
      header,
      new Blob([header, "a".repeat(5_000), "\0"]),
    ]
  ) {
    await assertRejects(
      () => decodeContent(response(bytes, "gzip")).text(),
      TypeError,
      "Cannot decode the content",
    );
  }
});

Deno.test("decodeContent() decodes no more than is read, from a single chunk", async () => {
  const zeros = new Uint8Array(16 * 1024 * 1024);
  for (
    const [coding, format] of [["gzip", "gzip"], ["br", "brotli"]] as const
  ) {
    const reader = decodeContent(response(await encode(zeros, format), coding))
      .body!.getReader();
    const { value } = await reader.read();
    assertEquals(
      value!.length <= 65_536,
      true,
      `${coding}: ${value!.length} bytes at once`,
    );
    await reader.cancel();
  }
});

Deno.test("decodeContent() cancels the encoded body when its reader is cancelled", async () => {
  const cancelled = Promise.withResolvers<unknown>();
  const bytes = await encode(PLAIN, "gzip");
  const endless = new ReadableStream({
    start: (controller) => controller.enqueue(bytes),
    cancel: cancelled.resolve,
  });
  const reader = decodeContent(response(endless, "gzip")).body!.getReader();
  await reader.read();
  await reader.cancel("left");
  assertEquals(await cancelled.promise, "left");
});

Deno.test("decodeContent() finds no error in content whose reader has left while it was decoded", async () => {
  for (const coding of ["gzip", "br"]) {
    const errors: TypeError[] = [];
    const endless = new ReadableStream<Bytes>({ cancel() {} });
    const decoded = decodeContent(response(endless, coding), (error) => {
      errors.push(error);
      return error;
    });
    const reader = decoded.body!.getReader();
    const read = reader.read();
    await nextTurn(); // the decoder waits for content
    await reader.cancel();
    assertEquals((await read).done, true);
    await nextTurn();
    assertEquals(errors, [], coding);
  }
});

Deno.test("filterAcceptEncoding() keeps only codings that decodeContent() supports", () => {
  assertEquals(
    filterAcceptEncoding("gzip, deflate, br, zstd"),
    "gzip, br",
  );
  assertEquals(
    filterAcceptEncoding("zstd;q=1.0, BR;q=0.5 , *;q=0.1, identity;q=0"),
    "br;q=0.5, identity;q=0",
  );
  assertEquals(filterAcceptEncoding("zstd, *"), "identity");
  assertEquals(filterAcceptEncoding(""), "identity");
  assertEquals(filterAcceptEncoding(null), "identity");
});

Deno.test("decodeContent() leaves an error to the reader, however late that reads", async () => {
  const invalid = decodeContent(response(new Uint8Array(10), "gzip"));
  const failing = new ReadableStream({
    pull: (controller) => controller.error(new Error("connection reset")),
  });
  const broken = decodeContent(response(failing, "br"));
  await nextTurn(); // both have failed by then, as while a config script is rendered
  await assertRejects(
    () => invalid.text(),
    TypeError,
    "Cannot decode the content",
  );
  await assertRejects(() => broken.text(), Error, "connection reset");
});

Deno.test("encodeContent() encodes a large body with bounded memory: it reads only on demand", async () => {
  let chunks = 0;
  const pull = (
    controller: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>>,
  ) => {
    chunks++;
    controller.enqueue(crypto.getRandomValues(new Uint8Array(65_536)));
  };
  const body = new ReadableStream({ pull, cancel() {} }, { highWaterMark: 0 });
  const reader = encodeContent(new Response(body), "GET", "gzip").body!
    .getReader();
  await reader.read();
  assertEquals(chunks < 5, true);
  await reader.cancel();
  await nextTurn(); // a pause of the encoder ends
});

Deno.test("encodeContent() cancels the body if the result is cancelled", async () => {
  let reason: unknown;
  const body = new ReadableStream({ cancel: (value) => void (reason = value) });
  await encodeContent(new Response(body), "GET", "gzip").body?.cancel("left");
  assertEquals(reason, "left");
});

Deno.test("encodeContent() forwards an error of the body", async () => {
  const body = new ReadableStream({
    pull: (controller) => controller.error(new Error("broken")),
  });
  await assertRejects(
    () => encodeContent(new Response(body), "GET", "gzip").text(),
    Error,
    "broken",
  );
});

Deno.test("encodeContent() keeps status and headers", async () => {
  const headers = {
    "etag": 'W/"a"',
    "vary": "accept-encoding",
  };
  const original = { status: 404, statusText: "Gone fishing", headers };
  const response = encodeContent(
    new Response("hello", original),
    "GET",
    "gzip",
  );
  const bytes = await response.bytes();
  const { status, statusText } = response;
  assertEquals([
    status,
    statusText,
    new TextDecoder().decode(gunzipSync(bytes)),
  ], [404, "Gone fishing", "hello"]);
  const empty = encodeContent(new Response(null, original), "GET", "gzip");
  assertEquals([empty.status, empty.statusText], [404, "Gone fishing"]);
  assertEquals(Object.fromEntries(response.headers), {
    "content-encoding": "gzip",
    "content-type": "text/plain;charset=UTF-8",
    "etag": 'W/"a"',
    "vary": "accept-encoding",
  });
});

Deno.test("encodeContent() lets other work run while it encodes a large body that is in memory", async () => {
  const chunk = new Uint8Array(64 * 1024);
  let [chunks, turns] = [64, 0];
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull: (controller) =>
      chunks-- > 0 ? controller.enqueue(chunk) : controller.close(),
  });
  const encoded = encodeContent(new Response(body), "GET", "br");
  const counting = setInterval(() => turns++, 0);
  await encoded.bytes();
  clearInterval(counting);
  assertEquals(turns >= 16, true, `${turns} turns`);
});
