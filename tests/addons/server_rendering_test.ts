/** What code reads that renders pages in the process of one or more gateways: the same that its pages are sent with. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { createGateway, toNodeHandler } from "../../main.ts";
import { get, getAll } from "../../src/client/mod.ts";
import { GATEWAYS } from "../../src/client/page.ts";
import type { Gateway } from "../../src/gateway_interface.ts";
import type {
  NodeRequest,
  NodeResponse,
} from "../../src/adapters/node_handler.ts";

/** A gateway whose title a test changes, in a process without others. */
async function setUp(title: string, hotReload = false) {
  const variables: Record<string, string> = { REP_PUBLIC_TITLE: title };
  const gateway = await createGateway({
    variables: () => variables,
    hotReload,
  });
  async function change(title: string) {
    variables["REP_PUBLIC_TITLE"] = title;
    await gateway.reload();
  }
  return { gateway, change };
}

/** Forgets what the process knows of gateways, as if it had just started. */
function restart() {
  Reflect.deleteProperty(globalThis, GATEWAYS);
}

async function inject(gateway: Gateway) {
  const headers = { "content-type": "text/html" };
  const page = new Response("<head></head>", { headers });
  return await (await gateway.inject(page)).text();
}

/** Returns the title in a page or in the element alone. */
function titleIn(html: string): string | undefined {
  return /"TITLE":"(\w+)"/.exec(html)?.[1];
}

Deno.test("get() and getAll() read the gateway of the process, until it is closed", async () => {
  restart();
  assertEquals([get("TITLE"), get("TITLE", "none")], [undefined, "none"]);
  const { gateway, change } = await setUp("One");
  assertEquals([get("TITLE"), get("TITLE", "none")], ["One", "One"]);
  assertEquals({ ...getAll() }, { TITLE: "One" });
  assertStrictEquals(getAll(), getAll());
  assertEquals(get("toString"), undefined);
  await change("Two");
  assertEquals(get("TITLE"), "Two");
  await gateway.close();
  assertEquals(get("TITLE"), undefined);
});

Deno.test("get() reads the gateway that was started last, and after that is closed the one before", async () => {
  restart();
  const first = await setUp("First");
  const last = await setUp("Last");
  assertEquals(get("TITLE"), "Last");
  await last.gateway.close();
  assertEquals(get("TITLE"), "First");
  await first.gateway.close();
});

Deno.test("createGateway() that fails leaves the gateway that is read", async () => {
  restart();
  const { gateway } = await setUp("One");
  const invalid = createGateway({
    variables: { REP_PUBLIC_TITLE: "x" },
    manifest: "version: '9'",
  });
  await invalid.then(() => assert(false), () => {});
  assertEquals(get("TITLE"), "One");
  await gateway.close();
});

for (const hotReload of [false, true]) {
  const mode = hotReload ? "with" : "without";
  Deno.test(`run() keeps the values of a page during a reload, ${mode} hot reload`, async () => {
    restart();
    const { gateway, change } = await setUp("Old", hotReload);
    await gateway.run(async () => {
      assertEquals(get("TITLE"), "Old");
      await change("New");
      const page = await inject(gateway);
      assertEquals([get("TITLE"), titleIn(page)], ["Old", "Old"]);
      assertEquals(gateway.get("TITLE"), "Old");
      assert(page.includes(await gateway.configScript()));
      await gateway.run(() => assertEquals(get("TITLE"), "Old"));
    });
    const page = await inject(gateway);
    assertEquals([get("TITLE"), titleIn(page)], ["New", "New"]);
    assertEquals(gateway.get("TITLE"), "New");
    await gateway.close();
  });
}

Deno.test("run() reads its own gateway, whichever was started last, also of two requests at a time", async () => {
  restart();
  const [a, b] = [await setUp("A"), await setUp("B")];
  const seen = await Promise.all(
    [a, b, a].map(({ gateway }) =>
      gateway.run(async () => {
        const before = get("TITLE");
        await Promise.all([a.change("A2"), b.change("B2")]);
        return [before, get("TITLE"), titleIn(await inject(gateway))];
      })
    ),
  );
  assertEquals(seen, [["A", "A", "A"], ["B", "B", "B"], ["A", "A", "A"]]);
  const foreign = b.gateway.run(() => inject(a.gateway));
  assertEquals(titleIn(await foreign), "A2");
  await Promise.all([a.gateway.close(), b.gateway.close()]);
});

Deno.test("run() returns what its callback returns or throws", async () => {
  restart();
  const { gateway } = await setUp("One");
  assertEquals(gateway.run(() => 1), 1);
  const error = new Error("broken");
  let caught: unknown;
  try {
    gateway.run(() => {
      throw error;
    });
  } catch (thrown) {
    caught = thrown;
  }
  assertStrictEquals(caught, error);
  await gateway.close();
});

Deno.test("toNodeHandler() calls the next middleware in run()", async () => {
  restart();
  const [{ gateway }, other] = [await setUp("One"), await setUp("Other")];
  const request: NodeRequest = {
    method: "GET",
    url: "/",
    headers: { host: "localhost" },
    socket: {},
  };
  const title = await new Promise((resolve) => {
    const handler = toNodeHandler(gateway);
    const response = { on() {} } as unknown as NodeResponse;
    handler(request, response, () => resolve(get("TITLE")));
  });
  assertEquals(title, "One");
  await Promise.all([gateway.close(), other.gateway.close()]);
});

Deno.test("inject() marks pages as rendered with the values once the client has read them", async () => {
  restart();
  const { gateway } = await setUp("One");
  const isMarked = (page: string) => page.includes(" data-rep-rendered>");
  assertEquals(isMarked(await inject(gateway)), false);
  get("TITLE");
  assertEquals(isMarked(await inject(gateway)), true);
  await gateway.close();
});

Deno.test("configScript() is the element of a page that is rendered with the values", async () => {
  restart();
  const { gateway } = await setUp("One");
  const element = await gateway.configScript();
  assert(element.startsWith('<script id="__rep__" type="application/json" '));
  assert(element.endsWith("</script>"));
  get("TITLE");
  assertEquals(await inject(gateway), `<head>${element}</head>`);
  await gateway.close();
});
