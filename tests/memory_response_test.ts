import {
  assertEquals,
  assertNotStrictEquals,
  assertStrictEquals,
} from "@std/assert";
import { setUp } from "./_gateway.ts";
import { TempDirectory } from "./_temp.ts";

for (const accessLog of [false, true]) {
  Deno.test(`nothing looks at the body of a response from memory ${accessLog ? "with" : "without"} an access log`, async () => {
    await using directory = await TempDirectory.make({
      "index.html": "<head></head>",
      "app.js": "1;".repeat(2_000),
    });
    const options = { accessLog, staticDir: directory.path };
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, options);
    const looked: string[] = [];
    const { prototype } = Response;
    const body = Object.getOwnPropertyDescriptor(prototype, "body")!;
    const paths = ["/", "/app.js", "/missing.js", "/rep/health", "/rep/none"];
    for (const path of paths) {
      Object.defineProperty(prototype, "body", {
        ...body,
        get() {
          looked.push(path);
          return body.get?.call(this);
        },
      });
      const headers = { "accept-encoding": "gzip" };
      const response = await gate.ask(path, { headers });
      Object.defineProperty(prototype, "body", body);
      await response.bytes();
    }
    assertEquals(looked, []);
  });
}

/** Returns the memory of the first chunk of a response. */
async function memoryOf(response: Response): Promise<ArrayBufferLike> {
  const reader = response.body!.getReader();
  const { value } = await reader.read();
  await reader.cancel();
  return value!.buffer;
}

for (const sharesBytes of [true, false]) {
  Deno.test(`responses from memory ${sharesBytes ? "share their bytes in the command" : "have bytes of their own for whoever embeds the module"}`, async () => {
    await using directory = await TempDirectory.make({
      "index.html": "<head></head>",
      "app.js": "1;".repeat(2_000),
    });
    const options = { staticDir: directory.path };
    await using gate = await setUp({ REP_PUBLIC_A: "1" }, options, {
      sharesBytes,
    });
    for (const path of ["/", "/deep/link", "/app.js", "/rep/client.js"]) {
      const memories = [
        await memoryOf(await gate.ask(path)),
        await memoryOf(await gate.ask(path)),
      ];
      const assert = sharesBytes ? assertStrictEquals : assertNotStrictEquals;
      assert(memories[0], memories[1], path);
    }
  });
}
