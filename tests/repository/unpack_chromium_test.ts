import { assertEquals, assertRejects } from "@std/assert";
import { unpackChromium } from "../../tools/unpack_chromium.ts";
import { TempDirectory } from "../_temp.ts";

/** Returns an extractor that writes one file, and how often it ran. */
function fakeExtract() {
  const extracted: string[] = [];
  const extract = async (folder: string) => {
    extracted.push(folder);
    await Deno.writeTextFile(`${folder}/chromium`, "");
  };
  return { extract, extracted };
}

async function entriesOf(path: string): Promise<string[]> {
  return await Array.fromAsync(Deno.readDir(path), ({ name }) => name);
}

Deno.test("unpackChromium() unpacks once, and several processes at once leave one complete folder", async () => {
  await using cache = await TempDirectory.make();
  const { extract, extracted } = fakeExtract();
  const found = await Promise.all(
    [1, 2, 3].map(() => unpackChromium(cache.at("new"), extract)),
  );
  const folder = cache.at("new/chromium-153.0.0");
  assertEquals(
    found,
    Array(3).fill({
      path: `${folder}/chromium`,
      env: { LD_LIBRARY_PATH: `${folder}/al2023/lib` },
    }),
  );
  assertEquals(await entriesOf(cache.at("new")), ["chromium-153.0.0"]);
  assertEquals(await entriesOf(folder), ["chromium"]);
  const count = extracted.length;
  assertEquals(await unpackChromium(cache.at("new"), extract), found[0]);
  assertEquals(extracted.length, count);
});

Deno.test("unpackChromium() leaves nothing behind when it fails, and tries again the next time", async () => {
  await using cache = await TempDirectory.make();
  const fail = () => Promise.reject(new Error("offline"));
  await assertRejects(() => unpackChromium(cache.path, fail), Error, "offline");
  assertEquals(await entriesOf(cache.path), []);
  await unpackChromium(cache.path, fakeExtract().extract);
  assertEquals(await entriesOf(cache.path), ["chromium-153.0.0"]);
});
