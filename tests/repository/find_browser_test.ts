import { assertEquals, assertRejects } from "@std/assert";
import { findBrowser } from "../../tools/find_browser.ts";

const FROM_NPM = {
  path: "/cache/chromium",
  env: { LD_LIBRARY_PATH: "/cache/lib" },
};
const NONE = "";
const HAS_NPM = Deno.build.os === "linux" && Deno.build.arch === "x86_64";

Deno.test({
  name: "findBrowser() returns npm's Chromium if CHROME_PATH is empty",
  ignore: !HAS_NPM,
  async fn() {
    const unpack = () => Promise.resolve(FROM_NPM);
    assertEquals(await findBrowser(NONE, unpack), FROM_NPM);
  },
});

Deno.test({
  name: "findBrowser() returns the reason if npm's Chromium cannot be unpacked",
  ignore: !HAS_NPM,
  async fn() {
    const unpack = () =>
      Promise.reject(new Error("Cannot unpack Chromium from npm: offline"));
    assertEquals(await findBrowser(NONE, unpack), {
      reason: "no CHROME_PATH; Cannot unpack Chromium from npm: offline",
    });
  },
});

Deno.test("findBrowser() returns the browser that CHROME_PATH names", async () => {
  const path = Deno.execPath();
  assertEquals(await findBrowser(path), { path, env: {} });
});

Deno.test("findBrowser() rejects a CHROME_PATH that names no file", async () => {
  await assertRejects(
    () => findBrowser("/none"),
    Error,
    'Cannot use CHROME_PATH: expected the path of a browser, got "/none"',
  );
});
