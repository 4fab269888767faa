import { assertEquals, assertNotEquals } from "@std/assert";
import { memoryStore } from "../../../src/engines/memory.ts";
import { html, serveSites } from "./_sites.ts";

type Sites = Awaited<ReturnType<typeof serveSites>>;

const SHOP = "shop.example.com";
const BLOG = "blog.example.com";

function start(store: ReturnType<typeof memoryStore>, shop: string) {
  return serveSites({
    store,
    files: {
      [`sites/${SHOP}/dist/index.html`]: html(shop),
      [`sites/${BLOG}/dist/index.html`]: html("Blog"),
    },
    base: { REP_PUBLIC_A: "1" },
  });
}

async function readPage(sites: Sites, host: string) {
  const page = await (await sites.ask(host)).text();
  const build = / data-rep-build="([^"]*)"/.exec(page)?.[1] ?? "";
  const path = /"hot_reload":"([^"]*)"/.exec(page)?.[1] ?? "";
  return { build, poll: `${path}&poll&build=` };
}

async function told(sites: Sites, host: string, poll: string) {
  const text = await (await sites.ask(host, poll)).text();
  return /^data: \{"build":"(.*)"\}$/m.exec(text)?.[1];
}

Deno.test("each site has its own build, and tells its own pages only", async () => {
  const store = memoryStore();
  const old = await start(store, "Shop 1");
  await using newer = await start(store, "Shop 2");
  const shop = await readPage(old, SHOP);
  const blog = await readPage(old, BLOG);
  const { build } = await readPage(newer, SHOP);
  assertNotEquals(build, shop.build);
  assertEquals((await readPage(newer, BLOG)).build, blog.build);
  const ask = async () => [
    await told(newer, SHOP, shop.poll + shop.build),
    await told(newer, BLOG, blog.poll + blog.build),
  ];
  assertEquals(await ask(), [undefined, undefined]);
  const report = await (await newer.internal("/rep/health")).json();
  assertEquals(report.sites[SHOP].build, build);
  assertEquals(report.sites[BLOG].builds, [blog.build]);
  await old[Symbol.asyncDispose]();
  for (let second = 0; second < 10; second++) await newer.look();
  assertEquals(await ask(), [build, undefined]);
});
