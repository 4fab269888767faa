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
  env?: Record<string, string>;
  files?: readonly string[];
}

/** Finds a browser on a machine that has only these files. */
function find(
  { os = "linux", arch = "x86_64", env = {}, files = [] }: FakeMachine,
  unpack = () => Promise.resolve(FROM_NPM),
) {
  const machine = {
    os,
    arch,
    env: (name: string) => env[name],
    isFile: (path: string) => Promise.resolve(files.includes(path)),
  };
  return findBrowser({ machine, unpack });
}

const PATH = { PATH: "/usr/local/bin:/usr/bin" };

Deno.test("findBrowser() prefers CHROME_PATH to an installed browser", async () => {
  const env = { ...PATH, CHROME_PATH: "/opt/mine" };
  assertEquals(await find({ env, files: ["/opt/mine", "/usr/bin/chromium"] }), {
    path: "/opt/mine",
    env: {},
  });
});

Deno.test("findBrowser() rejects a CHROME_PATH that names no file, and ignores an empty one", async () => {
  const files = ["/usr/bin/chromium"];
  await assertRejects(
    () => find({ env: { ...PATH, CHROME_PATH: "/opt/none" }, files }),
    Error,
    'Cannot use CHROME_PATH: expected the path of a browser, got "/opt/none"',
  );
  assertEquals(await find({ env: { ...PATH, CHROME_PATH: "" }, files }), {
    path: "/usr/bin/chromium",
    env: {},
  });
});

Deno.test("findBrowser() prefers Chromium to Chrome, Chrome to Edge, and any of them to the one from npm", async () => {
  const files = [
    "/usr/bin/chromium",
    "/usr/bin/google-chrome",
    "/usr/local/bin/microsoft-edge",
  ];
  for (let first = 0; first < files.length; first++) {
    assertEquals(await find({ env: PATH, files: files.slice(first) }), {
      path: files[first] ?? "",
      env: {},
    });
  }
  assertEquals(await find({ env: PATH }), FROM_NPM);
});

Deno.test("findBrowser() knows where installers put browsers that are not on the PATH", async () => {
  const machines: FakeMachine[] = [
    { os: "linux", files: ["/opt/google/chrome/chrome"] },
    {
      os: "darwin",
      files: ["/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"],
    },
    {
      os: "darwin",
      files: ["/home/Applications/Chromium.app/Contents/MacOS/Chromium"],
    },
    {
      os: "windows",
      files: ["C:\\Programs\\Google\\Chrome\\Application\\chrome.exe"],
    },
    {
      os: "windows",
      files: ["C:\\Programs (x86)\\Microsoft\\Edge\\Application\\msedge.exe"],
    },
    { os: "windows", files: ["D:\\tools\\chrome.exe"] },
  ];
  const env = {
    HOME: "/home",
    "PROGRAMFILES": "C:\\Programs",
    "PROGRAMFILES(X86)": "C:\\Programs (x86)",
  };
  for (const { os = "linux", files = [] } of machines) {
    const path = os === "windows" ? "C:\\Windows;D:\\tools" : "/bin";
    assertEquals(await find({ os, env: { ...env, PATH: path }, files }), {
      path: files[0] ?? "",
      env: {},
    });
  }
});

Deno.test("findBrowser() returns the reason where npm has no browser, or unpacking it fails", async () => {
  const none = "no CHROME_PATH and no installed Chromium, Chrome or Edge";
  for (
    const machine of [{ os: "darwin" }, { os: "windows" }, {
      arch: "aarch64",
    }] as const
  ) {
    assertEquals(await find(machine), {
      reason: `${none}; the one on npm is for Linux on x64`,
    });
  }
  const fail = () =>
    Promise.reject(new Error("Cannot unpack Chromium from npm: offline"));
  assertEquals(await find({}, fail), {
    reason: `${none}; Cannot unpack Chromium from npm: offline`,
  });
});
