import { assertEquals, assertStringIncludes } from "@std/assert";
import { repSecureStore, repStore } from "../../../src/client/svelte/mod.ts";
import { NpmExample, testNpmExample } from "../../_npm_example.ts";

Deno.test("repStore() and repSecureStore() have their defaults on a server, and nothing follows", () => {
  const values: unknown[] = [];
  const stores = [
    repStore("TITLE", "none"),
    repStore("OTHER"),
    repSecureStore("KEY"),
  ];
  for (const { subscribe } of stores) {
    subscribe((value: unknown) => values.push(value))();
  }
  assertEquals(values, ["none", undefined, null]);
});

const APP = `<script>
  import { repSecureStore, repStore } from "@rep/gateway/svelte";
  import { derived } from "svelte/store";
  const title = repStore("TITLE", "Default");
  const key = repSecureStore("KEY");
  const both = derived([title, repStore("OTHER")], (values) => values.join("+"));
</script>
<h1>{$title}</h1><p>{$both}</p><output>{$key ?? "none"}</output>
`;

const IN_A_PAGE = `import { setVariables, status } from "@rep/gateway/testing";
import { flushSync, mount, unmount } from "svelte";
import { expect, test, vi } from "vitest";
import App from "./App.svelte";

const shown = (selector) => {
  flushSync();
  return document.querySelector(selector)?.textContent;
};

test("a component follows its variables until it is unmounted", async () => {
  setVariables({}, { KEY: "secret" });
  const app = mount(App, { target: document.body });
  expect([shown("h1"), shown("p"), shown("output")]).toEqual(["Default", "Default+", "none"]);
  await vi.waitFor(() => expect(shown("output")).toBe("secret"));
  setVariables({ TITLE: "Hello", OTHER: "other" });
  expect([shown("h1"), shown("p")]).toEqual(["Hello", "Hello+other"]);
  setVariables({ TITLE: "Changed" });
  expect([shown("h1"), shown("p")]).toEqual(["Changed", "Changed+"]);
  setVariables({});
  expect(shown("h1")).toBe("Default"); // it was deleted
  expect(status().state).toBe("open");
  await unmount(app);
  expect(status().state).toBe("closed");
});

test("a missing SENSITIVE variable stays null, and the page reports the error", async () => {
  const reported = vi.fn();
  vi.stubGlobal("reportError", reported);
  setVariables({});
  const app = mount(App, { target: document.body });
  await vi.waitFor(() => expect(reported).toHaveBeenCalledOnce());
  expect(String(reported.mock.calls[0][0])).toContain("KEY");
  expect(shown("output")).toBe("none");
  await unmount(app);
});
`;

const ON_A_SERVER = `// @vitest-environment node
import { setVariables, status } from "@rep/gateway/testing";
import { render } from "svelte/server";
import { expect, test } from "vitest";
import App from "./App.svelte";

test("a server renders the values, and listens to nothing", async () => {
  setVariables({ TITLE: "Hello" }, { KEY: "secret" });
  const { body } = await render(App);
  expect(body).toContain("<h1>Hello</h1>");
  expect(body).not.toContain("secret");
  expect(status().state).toBe("closed");
});
`;

const CONFIG = `import { rep } from "@rep/gateway/vite";
import { svelte } from "@sveltejs/vite-plugin-svelte";

const project = (name, conditions) => ({
  extends: true,
  resolve: { conditions },
  test: { name, environment: "jsdom", include: ["src/" + name + ".test.js"] },
});
export default {
  plugins: [svelte(), rep()],
  test: { projects: [project("page", ["browser"]), project("server", [])] },
};
`;

testNpmExample(
  "repStore() and repSecureStore() are stores of Svelte, in a page and on a server",
  async () => {
    await using project = await NpmExample.make("svelte", {
      "vite.config.js": CONFIG,
      "src/App.svelte": APP,
      "src/page.test.js": IN_A_PAGE,
      "src/server.test.js": ON_A_SERVER,
    });
    const { success, output } = await project.run("vitest", "run");
    assertEquals(success, true, output);
    assertStringIncludes(output, "3 passed");
  },
);
