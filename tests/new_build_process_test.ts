/** What pages are told when real processes with another build end: by a signal, with `--stop-delay`, and killed. */
import { assertEquals, assertLess, assertNotEquals } from "@std/assert";
import { type RunningCommand, startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

async function start(directory: TempDirectory, build: string, flags: string[]) {
  const page = `<head></head><script src="/assets/${build}.js"></script>`;
  await Deno.mkdir(directory.at(build), { recursive: true });
  await directory.write(`${build}/index.html`, page);
  return await startCommand([
    `--static-dir=${directory.at(build)}`,
    `--kv=${directory.at("store.sqlite")}`,
    "--hot-reload",
    "--app=shop",
    "--drain=1s",
    ...flags,
  ], { REP_PUBLIC_A: "1" });
}

async function readPage({ url }: RunningCommand) {
  const html = await (await fetch(url)).text();
  const build = / data-rep-build="([^"]*)"/.exec(html)?.[1] ?? "";
  const path = /"hot_reload":"([^"]*)"/.exec(html)?.[1] ?? "";
  return { build, stream: `${path}&build=${build}` };
}

/** Waits for what a stream tells of another build. */
async function toldBy(response: Response): Promise<string> {
  const chunks = response.body!.pipeThrough(new TextDecoderStream());
  let text = "";
  for await (const chunk of chunks) {
    text += chunk;
    const found = /^event: rep:build\ndata: (.*)\nid: \d+\n\n/m.exec(text);
    if (found) return JSON.parse(found[1]!).build;
  }
  throw new Error(`The stream ended: ${text}`);
}

const ENDINGS = {
  "SIGTERM with --stop-delay": ["SIGTERM", 10_000],
  "SIGKILL": ["SIGKILL", 30_000],
} as const;

for (const [ending, [signal, maxMs]] of Object.entries(ENDINGS)) {
  Deno.test(`after ${ending}, a page of the old build is told within ${maxMs} ms after the port is closed, and not before`, async () => {
    await using directory = await TempDirectory.make();
    await using old = await start(directory, "A", ["--stop-delay=7s"]);
    await using newer = await start(directory, "B", []);
    const page = await readPage(old);
    const { build } = await readPage(newer);
    assertNotEquals(build, page.build);
    const told = toldBy(await fetch(newer.url + page.stream));
    let toldAt = 0;
    void told.then(() => toldAt = Date.now());
    old.signal(signal);
    let closedAt = Date.now();
    for (let answers = true; answers;) {
      closedAt = Date.now();
      const wasTold = toldAt !== 0;
      answers = await readPage(old).then(() => true, () => false);
      if (answers) assertEquals(wasTold, false);
      await new Promise((resolve) => setTimeout(resolve, 50)); // the next look
    }
    assertEquals(await told, build);
    assertLess(toldAt - closedAt, maxMs);
  });
}
