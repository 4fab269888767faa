import { assertEquals, assertRejects } from "@std/assert";
import fs from "node:fs/promises";
import { writeFile } from "../../../src/command/commands/write_file.ts";
import { ConfigurationError } from "../../../src/core/config/variables/snapshot.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test("writeFile() leaves a file as it was if the disk becomes full", async () => {
  await using directory = await TempDirectory.make({ "page.html": "before" });
  const path = directory.at("page.html");
  const { writeFile: write } = fs;
  fs.writeFile = async (path) => {
    await write(path, "a");
    throw new Error("ENOSPC: no space left on device, write");
  };
  try {
    await assertRejects(
      () => writeFile("DIR", path, "after"),
      ConfigurationError,
      `Cannot write DIR "${path}": ENOSPC: no space left on device, write`,
    );
  } finally {
    fs.writeFile = write;
  }
  assertEquals(await Deno.readTextFile(path), "before");
  const names = Array.fromAsync(Deno.readDir(directory.path), (it) => it.name);
  assertEquals(await names, ["page.html"]);
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
    await writeFile("DIR", link, "after");
    assertEquals([await Deno.readTextFile(path), await Deno.readLink(link)], [
      "after",
      "page.html",
    ]);
    const { mode, uid } = await Deno.stat(path);
    assertEquals([mode! & 0o7777, uid], [0o640, owner]);
  },
});

Deno.test({
  name:
    "writeFile() writes to devices and pipes, and names what it cannot write",
  ignore: Deno.build.os === "windows",
  async fn() {
    const message =
      'Cannot write --out "/dev/full": ENOSPC: no space left on device';
    await assertRejects(
      () => writeFile("--out", "/dev/full", "text"),
      ConfigurationError,
      message,
    );
    await writeFile("--out", "/dev/null", "text");
    await using directory = await TempDirectory.make();
    const pipe = directory.at("pipe");
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    const [, text] = await Promise.all([
      writeFile("--out", pipe, "text"),
      Deno.readTextFile(pipe),
    ]);
    assertEquals(text, "text");
  },
});
