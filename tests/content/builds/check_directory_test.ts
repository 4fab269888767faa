import { assertEquals, assertRejects } from "@std/assert";
import { createGateway } from "../../../src/gateway.ts";
import { OptionError } from "../../../src/core/values/option_error.ts";
import { checkKeepBuilds } from "../../../src/content/builds/check_directory.ts";
import { denoFileSystem } from "../../../src/files/local_files.ts";
import { run } from "../../command/commands/_run.ts";
import { Directories } from "./_builds.ts";

/** Directories, of which some do not exist yet, and a link to one. */
async function setUp() {
  const directories = await Directories.make();
  await directories.write("app", {
    "index.html": "<title>app</title>",
    "deep/x": "",
  });
  await directories.write("keep", { "x": "" });
  await directories.write(".", { "file": "" });
  await Deno.symlink("app", directories.at("link"));
  await Deno.symlink("app/deep", directories.at("into"));
  return directories;
}

/** Directories in which builds cannot be kept if `app` is served, or the directory that is named. */
const REFUSED: readonly [keep: string, served?: string][] = [
  ["app"],
  ["app/"],
  ["./app/deep/.."],
  ["app/deep"],
  ["app/new"],
  ["app/new/deeper"],
  ["link"],
  ["link/new"],
  ["into"],
  ["into/new"],
  ["."],
  ["keep", "keep/x"],
  ["new", "new/app"],
  ["app", "link"],
  ["missing/../app/new"],
  ["missing/./x/../../app"],
];

/** Directories that are beside the served one. */
const ACCEPTED: readonly [keep: string, served?: string][] = [
  ["keep"],
  ["new"],
  ["new/deeper"],
  ["app-keep"],
  ["ap"],
  ["into/../../keep"],
  ["link/../keep"],
  ["app/../missing"],
  ["app-keep/../new"],
];

Deno.test("builds are kept neither inside what is served nor around it, by whatever path or link", async () => {
  await using directories = await setUp();
  const at = (name: string) => `${directories.at("")}/${name}`; // as it was written
  const check = (keep: string, served = "app") =>
    checkKeepBuilds(
      at(keep),
      ["*"],
      [at(served)],
      denoFileSystem,
    );
  for (const [keep, served] of REFUSED) {
    await assertRejects(
      () => check(keep, served),
      OptionError,
      "neither inside",
      keep,
    );
  }
  for (const [keep, served] of ACCEPTED) await check(keep, served);
});

Deno.test("each of several served directories is checked, and those that are not set are not", async () => {
  await using directories = await setUp();
  const [app, keep, sites] = ["app", "keep", "sites"].map((name) =>
    directories.at(name)
  );
  await checkKeepBuilds(keep, ["*"], [undefined, app, sites], denoFileSystem);
  const check = () =>
    checkKeepBuilds(keep, ["*"], [app, undefined, keep], denoFileSystem);
  await assertRejects(check, OptionError);
  await checkKeepBuilds(undefined, [], [], denoFileSystem);
});

Deno.test("without static files, or without immutable ones, there is nothing to keep", async () => {
  await using directories = await setUp();
  const keepBuilds = directories.at("keep");
  const staticDir = directories.at("app");
  const message = "expected static files, of which some are immutable";
  for (const options of [{ staticDir }, { immutable: ["*"] }]) {
    const create = () =>
      createGateway({ variables: {}, keepBuilds, ...options });
    await assertRejects(create, OptionError, message);
  }
});

Deno.test("validate checks the directory", async () => {
  await using directories = await setUp();
  const validate = (...args: string[]) =>
    run([
      "validate",
      ...args.map((arg) => arg.replace("%", `${directories.at("")}/`)),
    ]);
  const app = ["--static-dir=%app", "--immutable=assets/*"];
  const valid = await validate(...app, "--keep-builds=%keep");
  assertEquals([valid.code, valid.err], [0, ["Valid: 0 variables"]]);
  const created = await validate(...app, "--keep-builds=%new");
  assertEquals(created.code, 0);
  const inside = await validate(...app, "--keep-builds=%app/keep");
  assertEquals(inside.code, 1);
  assertEquals(inside.err, [
    `Cannot use --keep-builds: expected a directory neither inside "${
      directories.at("app")
    }" nor around it, got "${directories.at("app/keep")}"`,
    "Invalid: 1 issues",
  ]);
  const file = await validate(...app, "--keep-builds=%file");
  assertEquals([file.code, file.err[0]], [
    1,
    `Cannot use --keep-builds "${
      directories.at("file")
    }": expected a directory`,
  ]);
  const below = await validate(...app, "--keep-builds=%file/keep");
  assertEquals([below.code, below.err[0]], [
    1,
    `Cannot use --keep-builds "${
      directories.at("file/keep")
    }": expected a directory`,
  ]);
  const alone = await validate("--keep-builds=%keep", "--static-dir=%app");
  assertEquals(alone.code, 1);
});
