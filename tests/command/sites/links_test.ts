import { assertEquals, assertMatch } from "@std/assert";
import { setStoredVariables } from "../../../src/stored/set_stored_variables.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import { html, serveSites } from "./_sites.ts";

Deno.test.sanitizer({ ops: true, resources: true }); // off by default since Deno 2.8

const MODES = [
  "--hot-reload-mode=file_watch",
  "--hot-reload-mode=poll",
  "--hot-reload-mode=signal",
];

const FILES = {
  "sites/evil.example/dist/index.html": html("evil"),
  "sites/victim.example/dist/index.html": html("victim"),
  "sites/victim.example/app.env": "REP_SERVER_KEY=secret\n",
  "sites/victim.example/vars/REP_PUBLIC_KEY": "secret",
  "releases/1/index.html": html("one"),
  "releases/2/index.html": html("two"),
  "outside/index.html": html("outside"),
};

type Served = Awaited<ReturnType<typeof serveSites>>;

/** Replaces something by a link, as `rm -r` and `ln -s` do. */
async function link(sites: Served, name: string, target: string) {
  await Deno.remove(sites.at(name), { recursive: true }).catch(() => {});
  await Deno.symlink(target.replace("%", sites.at(".")), sites.at(name));
}

const DIST = "sites/evil.example/dist";

/** What becomes a link, and to what; `%` is the directory of the test. */
const ELSEWHERE: Record<string, readonly (readonly [string, string])[]> = {
  "the directory of another site": [[DIST, "../victim.example"]],
  "the app of another site": [[DIST, "../victim.example/dist"]],
  "a directory of the system": [[DIST, "/etc"]],
  "a directory beside the sites": [[DIST, "%/outside"]],
  "the directory of all sites": [[DIST, ".."]],
  "a release, through a link that leads on": [
    ["releases/3", "../sites/victim.example"],
    [DIST, "%/releases/3"],
  ],
  "another site, through a link of its own": [
    ["sites/evil.example/next", "../victim.example"],
    [DIST, "next"],
  ],
  "another site, since its own directory does": [
    ["sites/evil.example", "victim.example"],
  ],
  "a directory beside the sites, since its own directory does": [
    ["outside/dist", "."],
    ["sites/evil.example", "%/outside"],
  ],
};

for (const mode of MODES) {
  for (const [where, links] of Object.entries(ELSEWHERE)) {
    Deno.test(`with ${mode}, an app that is switched to ${where} is not served, from the first request`, async () => {
      await using sites = await serveSites({
        args: [mode, "--releases=%/releases"],
        files: FILES,
      });
      assertEquals(await sites.read("evil.example"), { title: "evil" });
      await sites.clock.tick(1_000);
      for (const [name, target] of links) await link(sites, name, target);
      const paths = ["/app.env", "/hostname", "/", "/victim.example/app.env"];
      for (const path of paths) {
        assertEquals(await sites.read("evil.example", path), 503, path);
      }
      const { sites: reports } = await (await sites.internal("/rep/health"))
        .json();
      const { status, issues } = reports["evil.example"];
      assertEquals(status, "rejected");
      assertMatch(issues[0], /Cannot use ".*": expected it in the directory/);
      assertEquals(sites.logged("rep.site.rejected"), ["evil.example"]);
      assertEquals(await sites.read("victim.example"), { title: "victim" });
      await Deno.remove(sites.at(links.at(-1)![0]));
      await sites.write({ [`${DIST}/index.html`]: html("again") });
      await sites.reload();
      assertEquals(await sites.read("evil.example"), { title: "again" });
    });
  }

  Deno.test(`with ${mode}, an app that is switched to a release is served at once`, async () => {
    await using sites = await serveSites({
      args: [mode, "--releases=%/releases"],
      files: FILES,
    });
    assertEquals(await sites.read("evil.example"), { title: "evil" });
    for (const [release, title] of [["1", "one"], ["2", "two"], ["1", "one"]]) {
      await sites.clock.tick(1_000);
      await link(sites, DIST, `%/releases/${release}`);
      assertEquals(await sites.read("evil.example"), { title });
    }
    assertEquals(sites.logged("rep.site.rejected"), []);
  });

  Deno.test(`with ${mode}, no request fails while the app is switched between releases`, async () => {
    await using sites = await serveSites({
      args: [mode, "--releases=%/releases", "--static-cache=0"],
      files: FILES,
    });
    let isDone = false;
    const answers: unknown[] = [];
    async function request() {
      while (!isDone) {
        const answer = await sites.read("evil.example");
        answers.push(typeof answer === "number" ? answer : answer.title);
      }
    }
    await link(sites, DIST, "%/releases/1");
    const requests = [request(), request(), request(), request()];
    for (let count = 0; count < 100; count++) {
      await Deno.symlink(
        sites.at(`releases/${1 + count % 2}`),
        sites.at("sites/evil.example/next"),
      );
      await Deno.rename(sites.at("sites/evil.example/next"), sites.at(DIST));
      await sites.clock.tick(1_000);
    }
    isDone = true;
    await Promise.all(requests);
    const unexpected = answers.filter((it) => it !== "one" && it !== "two");
    assertEquals(unexpected, []);
  });
}

Deno.test("releases that contain the sites contain neither another site nor all of them", async () => {
  await using sites = await serveSites({
    args: ["--releases=%"],
    files: FILES,
  });
  const read = async (target: string) => {
    await sites.clock.tick(1_000);
    await link(sites, DIST, target);
    await sites.reload();
    return await sites.read("evil.example");
  };
  assertEquals(await read("%/outside"), { title: "outside" });
  assertEquals(await read("%/sites/victim.example"), 503);
  assertEquals(await read("%"), 503);
  assertEquals(await read("%/releases/1"), { title: "one" });
});

Deno.test("releases may be in the directory of the sites", async () => {
  await using sites = await serveSites({
    args: ["--releases=%/sites/.releases"],
    files: { ...FILES, "sites/.releases/1/index.html": html("inner") },
  });
  await link(sites, DIST, "../.releases/1");
  await sites.clock.tick(1_000);
  assertEquals(await sites.read("evil.example"), { title: "inner" });
});

Deno.test("files and directories of an app that are links to elsewhere are not served", async () => {
  await using sites = await serveSites({ files: FILES });
  await link(sites, `${DIST}/app.js`, "../../victim.example/app.env");
  await link(sites, `${DIST}/data`, "../../victim.example");
  await sites.clock.tick(1_000);
  for (const path of ["/app.js", "/data/app.env", "/data/dist/index.html"]) {
    assertEquals(await sites.read("evil.example", path), 404, path);
  }
  await link(sites, `${DIST}/index.html`, "../../victim.example/app.env");
  await sites.clock.tick(1_000);
  assertEquals(await sites.read("evil.example"), 503); // the page of the app is missing
});

/** What becomes a link while the site has variables of its own, and to what. */
const VARIABLES: Record<string, readonly [string, string]> = {
  "the env file": ["app.env", "../victim.example/app.env"],
  "the env file, now a directory,": ["app.env", "../victim.example/vars"],
  "the manifest": [".rep.yaml", "../victim.example/app.env"],
};

for (const [what, [name, target]] of Object.entries(VARIABLES)) {
  Deno.test(`${what} of a site is not read from another one when the store has a change, without any look at the directory`, async () => {
    const store = memoryStore();
    await using sites = await serveSites({
      args: ["--static-dir=%/outside"],
      store,
      files: {
        ...FILES,
        "sites/evil.example/app.env": "REP_PUBLIC_A=1\n",
        "sites/evil.example/.rep.yaml": 'version: "0.1.0"\nvariables: {}\n',
      },
    });
    assertEquals(await sites.read("evil.example"), { title: "evil", A: "1" });
    await link(sites, `sites/evil.example/${name}`, target);
    const app = { app: "evil.example", environment: {} };
    await setStoredVariables(store, { B: "2" }, app);
    const isRejected = () => sites.logged("rep.site.rejected").length > 0;
    for (let count = 0; count < 200 && !isRejected(); count++) {
      await sites.clock.tick(50);
    }
    assertEquals(await sites.read("evil.example"), 503);
    assertEquals(sites.logged("rep.site.rejected"), ["evil.example"]);
  });
}
