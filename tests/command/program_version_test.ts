import { assertEquals } from "@std/assert";
import { toFileUrl } from "@std/path";
import { programVersion } from "../../src/command/program_version.ts";
import { VERSION } from "../../src/version.ts";
import { TempDirectory } from "../_temp.ts";

const [OLD, NEW] = ["a".repeat(40), `12345678${"b".repeat(32)}`];
/** What git appends to for each commit and each checkout. */
const LOG = `${"0".repeat(40)} ${OLD} A <a@b.example> 1 +0000\tclone: from x
${OLD} ${NEW} A <a@b.example> 2 +0000\tcommit: Say why
`;

function versionAt(directory: TempDirectory, name: string): Promise<string> {
  return programVersion(toFileUrl(directory.at(name)));
}

Deno.test("programVersion() has the commit of a checkout and of a worktree, and none elsewhere", async () => {
  await using directory = await TempDirectory.make({
    "worktree.git": "gitdir: folder.git\n",
    "broken.git": "gitdir: /nowhere\n",
    "windows.git": "gitdir: C:/app/.git/worktrees/a\n",
  });
  await Deno.mkdir(directory.at("folder.git/logs"), { recursive: true });
  await directory.write("folder.git/logs/HEAD", LOG);
  await Deno.mkdir(directory.at(".git/logs"), { recursive: true });
  await directory.write(".git/logs/HEAD", LOG.split("\n")[0] ?? "");
  assertEquals(await versionAt(directory, ".git"), `${VERSION}+aaaaaaaa`);
  const worktree = await versionAt(directory, "worktree.git");
  assertEquals(worktree, `${VERSION}+12345678`);
  assertEquals(await versionAt(directory, "broken.git"), VERSION);
  assertEquals(await versionAt(directory, "windows.git"), VERSION);
  const registry = new URL("https://jsr.io/@rep/gateway/0.1.0/.git");
  assertEquals(await programVersion(registry), VERSION);
  await using other = await TempDirectory.make();
  assertEquals(await versionAt(other, ".git"), VERSION);
});

Deno.test("programVersion() does not ask for the permission to read", {
  permissions: { read: false },
}, async () => {
  const { readTextFile } = Deno;
  Deno.readTextFile = () => {
    throw new Error("In a terminal, Deno would ask");
  };
  try {
    assertEquals(await programVersion(), VERSION);
  } finally {
    Deno.readTextFile = readTextFile;
  }
});
