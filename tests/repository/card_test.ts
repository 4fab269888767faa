/**
 * The gateway is built with what its design names: parts of Deno, of the web platform and of `@std`. No behavior shows
 * when one of them is replaced, so these tests look at the code.
 */
import { assertEquals } from "@std/assert";
import { readModules } from "./_sources.ts";

/** What the design names, where it is used, and what its use looks like. */
const CARD: readonly [what: string, folder: string, use: RegExp][] = [
  ["@std/http", "src/core/http", importOf("@std/http/")],
  ["@std/crypto", "src/core/keys", importOf("@std/crypto/")],
  ["@std/log", "src/core/observe", importOf("@std/log/")],
  ["@std/cli", "src/command/options", importOf("@std/cli/parse-args")],
  ["Deno.serve", "src/command/start", /\bDeno\.serve\(/],
  ["ReadableStream", "src/core/changes", /\bnew ReadableStream\b/],
  ["TextEncoderStream", "src/core/changes", /\bnew TextEncoderStream\(/],
  [
    "HKDF of crypto.subtle",
    "src/core/keys",
    /\bname: "HKDF"[^]*\bcrypto\.subtle\.deriveBits\(/,
  ],
  ["Deno.Kv", "src/engines", /\bDeno\.openKv\(/],
];

/** Matches an import of more than types from a module whose name begins so. */
function importOf(name: string): RegExp {
  return new RegExp(`^import (?!type )[^;]*"${name}`, "m");
}

/** Removes the comments of formatted code. */
function withoutComments(code: string): string {
  return code.replace(/^\s*\/\*[^]*?\*\/|(?<=^|\s)\/\/ .*/gm, "");
}

/** Returns the paths of the modules in a folder whose code matches. */
async function modulesThatUse(folder: string, use: RegExp): Promise<string[]> {
  const modules = [...await readModules(folder)];
  const users = modules.filter(([, text]) => use.test(withoutComments(text)));
  return users.map(([path]) => path);
}

for (const [what, folder, use] of CARD) {
  Deno.test(`the gateway uses ${what} in ${folder}`, async () => {
    const users = await modulesThatUse(folder, use);
    assertEquals([what, users.length > 0], [what, true]);
  });
}

Deno.test("a name in a comment, or an import of types, is no use of it", () => {
  const comments = [
    "/** See Deno.serve(). */\n",
    "/**\n * Deno.serve() serves.\n * @see Deno.serve()\n */\n",
    "  // Deno.serve() serves\n",
    "stop(); // before Deno.serve() returns\n",
  ];
  const [, , use] = CARD.find(([what]) => what === "Deno.serve") ?? CARD[0]!;
  const code = 'const url = "http://a/"; Deno.serve(handler);\n';
  assertEquals(
    [...comments, code].map((text) => use.test(withoutComments(text))),
    [false, false, false, false, true],
  );
  const imports = {
    'import type { ParseOptions } from "@std/cli/parse-args";': false,
    'import {\n  parseArgs,\n} from "@std/cli/parse-args";': true,
  };
  for (const [text, isUse] of Object.entries(imports)) {
    const found = importOf("@std/cli/").test(text);
    assertEquals([text, found], [text, isUse]);
  }
});

/** Functions that these tests share call `@std/assert` for them. */
const WITHOUT_ASSERTIONS = [
  "tests/denokv_test.ts",
  "tests/model/service_test.ts",
  "tests/core/pages/html_oracle_test.ts",
  "tests/core/rollout/model_test.ts",
];

Deno.test("tests assert with @std/assert", async () => {
  const users = await modulesThatUse("tests", importOf("@std/assert"));
  const tests = [...(await readModules("tests")).keys()]
    .filter((path) => path.endsWith("_test.ts"));
  const others = tests.filter((path) => !users.includes(path));
  assertEquals(others.toSorted(), WITHOUT_ASSERTIONS.toSorted());
});
