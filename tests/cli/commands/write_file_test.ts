import { assertEquals, assertRejects } from "@std/assert";
import { writeFile } from "../../../src/cli/commands/write_file.ts";
import { ConfigurationError } from "../../../src/config/snapshot.ts";

const DIRECTORY = Deno.makeTempDirSync();
const PATH = `${DIRECTORY}/new/out.txt`;

Deno.test("writeFile() needs the permission to write the file, and no other", {
  permissions: { read: [DIRECTORY], write: [DIRECTORY] },
}, async () => {
  try {
    assertEquals([await writeFile("--out", PATH, "text"), await writeFile("--out", PATH, "text")], [true, false]);
    assertEquals(await Deno.readTextFile(PATH), "text");
    const message = 'Cannot write --out "/elsewhere": expected --allow-write=/elsewhere';
    await assertRejects(() => writeFile("--out", "/elsewhere", ""), ConfigurationError, message);
  } finally {
    await Deno.remove(DIRECTORY, { recursive: true });
  }
});
