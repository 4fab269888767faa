/** What docs/sites.md says, with the directory of examples/sites, as a process. */
import { get, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { assertEquals, assertMatch } from "@std/assert";
import { startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

Deno.test("the command in docs/sites.md serves each host in examples/sites, and follows the directory", async () => {
  const guide = await Deno.readTextFile("docs/sites.md");
  const [, line = ""] = /^deno task gateway (.*)$/m.exec(guide) ?? [];
  await using copy = await TempDirectory.make();
  await copyAll("examples/sites/customers", copy.path);
  const args = line
    .replace("examples/sites/customers", copy.path)
    .replace("--hostname 127.0.0.1 ", "") // startCommand() says it, too
    .split(" ");
  await using command = await startCommand([
    ...args,
    "--hot-reload",
    "--hot-reload-mode=file_watch",
  ]);
  const titleAt = async (host: string) => {
    const page = await textAt(`${command.url}/`, host);
    return /"TITLE":"([^"]*)"/.exec(page)?.[1];
  };
  assertEquals(await titleAt("shop.example.com"), "The shop");
  assertEquals(await titleAt("blog.example.com"), "The blog");
  assertEquals(await titleAt("any.example.com"), "Any other host");
  await Deno.mkdir(copy.at("new.example.com"));
  await copy.write("new.example.com/app.env", "REP_PUBLIC_TITLE=New\n");
  const opened = await command.logged(({ msg, site }) =>
    msg === "rep.site.opened" && site === "new.example.com"
  );
  assertMatch(String(opened.level), /INFO/);
  assertEquals(await titleAt("new.example.com"), "New");
});

/** Deno's own `fetch()` sends no other host than that of the URL. */
async function textAt(url: string, host: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<IncomingMessage>();
  get(url, { headers: { host }, agent: false }, resolve);
  return await text(await promise);
}

async function copyAll(from: string, to: string): Promise<void> {
  for await (const { name, isDirectory } of Deno.readDir(from)) {
    const [source, target] = [`${from}/${name}`, `${to}/${name}`];
    if (!isDirectory) await Deno.copyFile(source, target);
    else {
      await Deno.mkdir(target);
      await copyAll(source, target);
    }
  }
}
