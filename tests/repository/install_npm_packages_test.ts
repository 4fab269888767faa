import { assertEquals, assertRejects } from "@std/assert";
import {
  installNpmPackages,
  type InstallOutcome,
} from "../../tools/install_npm_packages.ts";
import { TempDirectory } from "../_temp.ts";

const PROJECTS = new Map([["a", '{"name":"a"}'], ["b", '{"name":"b"}']]);

/** Returns a stand-in for `npm install`, and the folders it ran in. */
function fakeInstall(outcome: InstallOutcome = { success: true, stderr: "" }) {
  const folders: string[] = [];
  const install = async (folder: string) => {
    folders.push(folder);
    await Deno.mkdir(`${folder}/node_modules`);
    return outcome;
  };
  return { install, folders };
}

Deno.test("installNpmPackages() installs projects as workspaces, once for each version of their manifests", async () => {
  await using cache = await TempDirectory.make();
  const { install, folders } = fakeInstall();
  const options = { cache: cache.path, install };
  const folder = await installNpmPackages(PROJECTS, options);
  assertEquals(await installNpmPackages(PROJECTS, options), folder);
  assertEquals(folders.length, 1);
  assertEquals(JSON.parse(await Deno.readTextFile(`${folder}/package.json`)), {
    private: true,
    workspaces: ["a", "b"],
  });
  assertEquals(
    await Deno.readTextFile(`${folder}/b/package.json`),
    '{"name":"b"}',
  );
  assertEquals((await Deno.stat(`${folder}/node_modules`)).isDirectory, true);
  const changed = await installNpmPackages(
    new Map([...PROJECTS, ["b", '{"name":"b","version":"2"}']]),
    options,
  );
  assertEquals([changed === folder, folders.length], [false, 2]);
});

Deno.test("installNpmPackages() says that there is no network, or no npm", async () => {
  await using cache = await TempDirectory.make();
  const reasonOf = (install: (folder: string) => Promise<InstallOutcome>) =>
    installNpmPackages(PROJECTS, { cache: cache.path, install });
  const stderr =
    "npm error code ENOTFOUND\nnpm error network request to the registry failed";
  assertEquals(
    await reasonOf(fakeInstall({ success: false, stderr }).install),
    {
      reason: "the npm registry cannot be reached",
    },
  );
  assertEquals(
    await reasonOf(() => Promise.reject(new Deno.errors.NotFound())),
    { reason: "npm is not installed" },
  );
  assertEquals(await Array.fromAsync(Deno.readDir(cache.path)), []);
});

Deno.test("installNpmPackages() fails with the error of npm if a package does not exist", async () => {
  await using cache = await TempDirectory.make();
  const { install } = fakeInstall({
    success: false,
    stderr: "npm error code ETARGET\nnpm error notarget No match",
  });
  await assertRejects(
    () => installNpmPackages(PROJECTS, { cache: cache.path, install }),
    Error,
    "Cannot install npm packages: npm error code ETARGET",
  );
});
