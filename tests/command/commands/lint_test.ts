import { assertEquals, assertStringIncludes } from "@std/assert";
import { TempDirectory } from "../../_temp.ts";
import { done, failed, run } from "./_run.ts";

const AWS = "AKIAIOSFODNN7EXAMPLE";
const RANDOM = "q8Zr2LkV7xTn4YbW9sDf3GhJ6mPc1QqZ8rL2k";

/** Runs lint on files, and returns the findings with paths relative to their directory. */
async function lintFiles(files: Record<string, string>, ...args: string[]) {
  await using build = await TempDirectory.make();
  await Deno.mkdir(build.at("assets"));
  for (const [name, text] of Object.entries(files)) {
    await build.write(name, text);
  }
  const { code, out, err } = await run(["lint", build.path, ...args]);
  return {
    code,
    out: out.map((line) => line.replaceAll(`${build.path}/`, "")),
    err,
  };
}

Deno.test("lint prints the file, the line and the column of values that look like secrets, without the values", async () => {
  const { code, out, err } = await lintFiles({
    "assets/app.js":
      `const a = "ok";\nconst k = '${AWS}', r = \`${RANDOM}\`;\n`,
    "index.html": `<head>\n\n<script>window.KEY="${RANDOM}"</script></head>`,
    "app.js.map": JSON.stringify({ sourcesContent: [`const k = "${AWS}";`] }),
  });
  assertEquals(code, 1);
  assertEquals(
    out.map((line) => line.replace(/has [\d.]+ bits/, "has N bits")),
    [
      "app.js.map:1:33: known_format: the value looks like an AWS access key",
      "assets/app.js:2:12: known_format: the value looks like an AWS access key",
      "assets/app.js:2:40: high_entropy: the value has N bits of entropy per character",
      "index.html:3:21: high_entropy: the value has N bits of entropy per character",
    ],
  );
  assertEquals(err, ["4 values that look like secrets in 3 files"]);
});

Deno.test("lint finds known formats anywhere in long minified code", async () => {
  for (const length of [16_370, 16_384, 17_000, 100_000]) {
    const { out } = await lintFiles({
      "a.js": `${"f(x);".repeat(length / 5)}${AWS};${"f(x);".repeat(1_000)}`,
    });
    assertEquals(out, [
      "a.js:1:1: known_format: the value looks like an AWS access key",
    ]);
  }
});

Deno.test("lint checks a megabyte without a break", async () => {
  for (const unit of ["x", "eyJa", "xoxb-", '\\"']) {
    const { code } = await lintFiles({
      "a.js": unit.repeat(1_000_000 / unit.length),
    });
    assertEquals([unit, code === 0 || unit === "xoxb-"], [unit, true]);
  }
});

const HARMLESS: Record<string, string> = {
  "minified code":
    `function a(b,c){return b?c.map((d)=>d.e+"x"+f(g,h[1]^0x3f)):void 0}const Q9zXw4=(K,v8)=>K(v8,$r2,_Pq7,T0m);`,
  "alphabets":
    `"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/","useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict"`,
  "hashes of resources":
    `<script src="a.js" integrity="sha384-oqVuAfXRKap7fdgcCY5uykM6+R9GqQ8K/uxy9rx7HNQlGYl1kPzQho1wx4JwY8wC">`,
  "an injected payload":
    `"integrity":"hmac-sha256:oqVuAfXRKap7fdgcCY5uykM6R9GqQ8Kuxy9rx7HNQl0="`,
  "paths and class names":
    `"M12.5,3.2L18,9.7Z","flex-col items-center","./assets/index-BlqUhaVx.js","com.example.app.SomeLongName"`,
  "names in code":
    `"browser.launchOptions.handleSIGTERM","__webpack_require__.getPrototypeOfModuleXYZ"`,
  "an address that is put together": `"https://"+a+":"+b+"@"+c`,
  "a binary": `"${"AGFzbQEAAAABBgFgAX8Bf3".repeat(100)}"`,
};

Deno.test("lint accepts what only looks random", async () => {
  const accepted = done([], ["0 values that look like secrets in 1 files"]);
  for (const [what, text] of Object.entries(HARMLESS)) {
    assertEquals([what, await lintFiles({ "a.js": text })], [what, accepted]);
  }
});

Deno.test("lint --json prints the findings", async () => {
  const { code, out } = await lintFiles({ "a.js": `"${AWS}"` }, "--json");
  assertEquals([code, JSON.parse(out.join("\n"))], [1, [{
    file: "a.js",
    line: 1,
    column: 2,
    detection: "known_format",
    detail: "the value looks like an AWS access key",
  }]]);
});

Deno.test("lint checks the files that --pattern selects and --exclude does not", async () => {
  const files = {
    "a.js": AWS,
    "b.txt": AWS,
    "c.bin": AWS,
    "assets/d.min.js": AWS,
    "assets/e.js": AWS,
  };
  const linted = async (...args: string[]) =>
    (await lintFiles(files, ...args)).out.map((line) => line.split(":")[0]);
  const build = ["a.js", "assets/d.min.js", "assets/e.js"];
  assertEquals(await linted(), [...build, "b.txt"]);
  assertEquals(await linted("--pattern=**/*.{js,bin}"), [...build, "c.bin"]);
  for (const exclude of ["*.min.js, *.txt", " *.txt ,\t*.min.js "]) {
    const excluding = await linted(`--exclude=${exclude}`);
    assertEquals(excluding, ["a.js", "assets/e.js"]);
  }
  assertEquals(await linted("--exclude=assets/**"), ["a.js", "b.txt"]);
});

Deno.test({
  name: "lint waits for no pipe, and reads what links name",
  ignore: Deno.build.os === "windows",
  async fn() {
    await using other = await TempDirectory.make({ "a.js": `"${AWS}"` });
    await using build = await TempDirectory.make();
    await Deno.symlink(other.at("a.js"), build.at("link.js"));
    await new Deno.Command("mkfifo", { args: [build.at("pipe.js")] }).output();
    const { code, out } = await run(["lint", build.path]);
    assertEquals(code, 1);
    assertStringIncludes(out.join("\n"), `${build.at("link.js")}:1:2: `);
    const pipe = build.at("pipe.js");
    const { err } = await run(["lint", pipe]);
    assertStringIncludes(err.join(), `Cannot read DIR "${pipe}": ENOTDIR`);
  },
});

Deno.test("lint exits with 1 if there is nothing to check", async () => {
  await using empty = await TempDirectory.make();
  assertEquals(
    await run(["lint", empty.path]),
    failed(`Cannot lint ${empty.path}: expected files of a build, got none`),
  );
  const missing = empty.at("missing");
  const { code, err: [message = ""] } = await run(["lint", missing]);
  assertEquals(code, 1);
  assertStringIncludes(message, `Cannot read DIR "${missing}": `);
});
