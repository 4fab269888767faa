import { assertRejects } from "@std/assert";
import { listBuildFiles } from "../../../src/cli/commands/build_commands.ts";
import { ConfigurationError } from "../../../src/config/variables/snapshot.ts";
import { TempDirectory } from "../../_temp.ts";

Deno.test("listBuildFiles() rejects a directory that cannot be listed, and names it", async () => {
  await using build = await TempDirectory.make();
  const { readDir } = Deno;
  Deno.readDir = () => {
    throw new Deno.errors.PermissionDenied("not readable");
  };
  try {
    const message = `Cannot read DIR "${build.path}": not readable`;
    await assertRejects(
      () => listBuildFiles(build.path),
      ConfigurationError,
      message,
    );
  } finally {
    Deno.readDir = readDir;
  }
});
