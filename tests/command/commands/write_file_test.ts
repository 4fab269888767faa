import { assertEquals, assertRejects } from "@std/assert";
import fs from "node:fs/promises";
import { writeFile } from "../../../src/command/commands/write_file.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { TempDirectory } from "../../_temp.ts";

/** Returns the names of the files in a directory. */
async function namesIn({ path }: TempDirectory): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(path), ({ name }) => name)).sort();
}

const DIRECTORY = Deno.makeTempDirSync();
/** The permissions name a link, as `/tmp` is one on macOS. */
const LINK = `${DIRECTORY}/link`;
const PATH = `${LINK}/out.txt`;
Deno.mkdirSync(`${DIRECTORY}/folder`);
Deno.symlinkSync(`${DIRECTORY}/folder`, LINK, { type: "dir" });
Deno.test.afterAll(() => Deno.remove(DIRECTORY, { recursive: true }));

Deno.test("writeFile() needs the permission to write the file, and no other", {
  permissions: { read: [LINK], write: [LINK] },
}, async () => {
  assertEquals([
    await writeFile("--out", PATH, "text"),
    await writeFile("--out", PATH, "text"),
  ], [true, false]);
  assertEquals(await Deno.readTextFile(PATH), "text");
  const message =
    'Cannot write --out "/elsewhere": expected --allow-write=/elsewhere';
  await assertRejects(
    () => writeFile("--out", "/elsewhere", ""),
    ConfigurationError,
    message,
  );
});

Deno.test("writeFile() leaves a file as it was if the disk becomes full", async () => {
  await using directory = await TempDirectory.make({ "page.html": "before" });
  const { writeFile: write } = fs;
  fs.writeFile = async (path, data) => {
    await write(path, (data as Uint8Array<ArrayBuffer>).slice(0, 1));
    throw new Error("No space left on device (os error 28)");
  };
  try {
    const path = directory.at("page.html");
    const message =
      `Cannot write DIR "${path}": No space left on device (os error 28)`;
    await assertRejects(
      () => writeFile("DIR", path, "after"),
      ConfigurationError,
      message,
    );
    assertEquals([await Deno.readTextFile(path), await namesIn(directory)], [
      "before",
      ["page.html"],
    ]);
  } finally {
    fs.writeFile = write;
  }
});

Deno.test({
  name: "writeFile() keeps the mode and the owner of a file, and a link to it",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using directory = await TempDirectory.make({ "page.html": "before" });
    const [path, link] = [directory.at("page.html"), directory.at("link.html")];
    await Deno.chmod(path, 0o640);
    const owner = Deno.uid() === 0 ? 65_534 : Deno.uid();
    await Deno.chown(path, owner, null);
    await Deno.symlink("page.html", link);
    assertEquals([
      await writeFile("DIR", link, "after"),
      await writeFile("DIR", link, "after"),
    ], [true, false]);
    assertEquals([await Deno.readTextFile(path), await Deno.readLink(link)], [
      "after",
      "page.html",
    ]);
    const { mode, uid } = await Deno.stat(path);
    assertEquals([mode! & 0o7777, uid], [0o640, owner]);
    assertEquals(await namesIn(directory), ["link.html", "page.html"]);
  },
});

Deno.test({
  name: "writeFile() replaces a file that is too large to be read",
  ignore: Deno.build.os === "windows", // where the file would take as much of the disk
  async fn() {
    await using directory = await TempDirectory.make({ "out.txt": "" });
    const path = directory.at("out.txt");
    await Deno.truncate(path, 2 ** 31);
    assertEquals(await writeFile("--out", path, "text"), true);
    assertEquals(await Deno.readTextFile(path), "text");
  },
});

Deno.test({
  name: "writeFile() writes to devices and pipes without reading them",
  ignore: Deno.build.os === "windows",
  async fn() {
    const message =
      'Cannot write --out "/dev/full": ENOSPC: no space left on device';
    await assertRejects(
      () => writeFile("--out", "/dev/full", "text"),
      ConfigurationError,
      message,
    );
    assertEquals(await writeFile("--out", "/dev/null", "text"), true);
    await using directory = await TempDirectory.make();
    const pipe = directory.at("pipe");
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    const [isWritten, text] = await Promise.all([
      writeFile("--out", pipe, "text"),
      Deno.readTextFile(pipe),
    ]);
    assertEquals([isWritten, text], [true, "text"]);
  },
});
