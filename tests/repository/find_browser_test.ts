import { assertEquals, assertRejects } from "@std/assert";
import { findBrowser } from "../../tools/find_browser.ts";
import type { Machine } from "../../tools/find_program.ts";

const FROM_NPM = {
  path: "/cache/chromium",
  env: { LD_LIBRARY_PATH: "/cache/lib" },
};

interface FakeMachine {
  os?: Machine["os"];
  arch?: Machine["arch"];
  chromePath?: string;
}

/** Finds a browser on a machine where every path names a file, and returns what was looked at as well. */
async function find(
  { os = "linux", arch = "x86_64", chromePath }: FakeMachine,
  unpack = () => Promise.resolve(FROM_NPM),
) {
  const looks: string[] = [];
  const machine: Machine = {
    os,
    arch,
    env(name) {
      looks.push(name);
      return name === "CHROME_PATH" ? chromePath : "/usr/bin";
    },
    isFile(path) {
      looks.push(path);
      return Promise.resolve(path !== "/opt/none");
    },
  };
  return { found: await findBrowser({ machine, unpack }), looks };
}

Deno.test("findBrowser() returns npm's Chromium on Linux x64, and looks for no installed browser, neither on the PATH nor at any path", async () => {
  assertEquals(await find({}), { found: FROM_NPM, looks: ["CHROME_PATH"] });
  assertEquals(await find({ chromePath: "" }), {
    found: FROM_NPM,
    looks: ["CHROME_PATH"],
  });
});

Deno.test("findBrowser() returns the browser that CHROME_PATH names on every system, and looks at nothing else", async () => {
  for (const os of ["linux", "darwin", "windows"] as const) {
    assertEquals(await find({ os, chromePath: "/opt/mine" }), {
      found: { path: "/opt/mine", env: {} },
      looks: ["CHROME_PATH", "/opt/mine"],
    });
  }
});

Deno.test("findBrowser() rejects a CHROME_PATH that names no file", async () => {
  await assertRejects(
    () => find({ chromePath: "/opt/none" }),
    Error,
    'Cannot use CHROME_PATH: expected the path of a browser, got "/opt/none"',
  );
});

Deno.test("findBrowser() returns the reason where npm has no browser, or unpacking it fails", async () => {
  const machines: FakeMachine[] = [
    { os: "darwin" },
    { os: "windows" },
    { arch: "aarch64" },
  ];
  for (const machine of machines) {
    assertEquals(await find(machine), {
      found: {
        reason: "no CHROME_PATH; the Chromium on npm is for Linux on x64",
      },
      looks: ["CHROME_PATH"],
    });
  }
  const fail = () =>
    Promise.reject(new Error("Cannot unpack Chromium from npm: offline"));
  assertEquals((await find({}, fail)).found, {
    reason: "no CHROME_PATH; Cannot unpack Chromium from npm: offline",
  });
});
