import { assertEquals, assertMatch } from "@std/assert";
import { dirname } from "@std/path";
import { TempDirectory } from "../../_temp.ts";
import { run } from "./_run.ts";

const FILES = {
  "base.env": "REP_PUBLIC_A=base\nREP_SENSITIVE_KEY=base\n",
  "rep.yaml":
    'version: "0.1.0"\nvariables: { A: { tier: public, type: string, required: true } }\n',
  "sites/good.example/app.env": "REP_PUBLIC_A=own\n",
  "sites/wrong.example/app.env": "REP_PUBLIC_KEY=a\n",
  "sites/Bad.example/app.env": "",
};

/** Runs `validate --sites`, with the variables of the process as well. */
async function validate(...flags: string[]) {
  await using project = await TempDirectory.make();
  for (const [name, text] of Object.entries(FILES)) {
    await Deno.mkdir(dirname(project.at(name)), { recursive: true });
    await project.write(name, text);
  }
  return await run([
    "validate",
    ...["--sites", project.at("sites")],
    ...["--env-file", project.at("base.env")],
    ...["--manifest", project.at("rep.yaml")],
    ...flags,
  ], { REP_PUBLIC_B: "environment" });
}

Deno.test("validate --sites checks each site with what it has and what it takes from the command, as JSON for CI", async () => {
  const { code, out } = await validate("--json");
  const reports = JSON.parse(out.join("\n"));
  const summary = reports.map((
    { site, valid, issues }: {
      site: string;
      valid: boolean;
      issues: unknown[];
    },
  ) => [site, valid, issues.length]);
  assertEquals([code, summary], [1, [
    ["Bad.example", false, 1],
    ["good.example", true, 0],
    ["wrong.example", false, 1],
  ]]);
  const [, good] = reports;
  const values = good.variables.map((
    { name, value, source }: Record<string, string>,
  ) => [name, value, source?.split("/").at(-1)]);
  assertEquals(values, [
    ["A", "own", "app.env"],
    ["B", "environment", "environment"],
    ["KEY", null, "base.env"],
  ]);
});

Deno.test("validate --sites prints each site with its issues for people", async () => {
  const { out, err } = await validate();
  assertEquals(out.filter((line) => line.endsWith(":")), [
    "Bad.example:",
    "good.example:",
    "wrong.example:",
  ]);
  assertMatch(err.join("\n"), /REP_PUBLIC_KEY|KEY.*SENSITIVE/i);
});

Deno.test("validate --sites says that it cannot read the directory", async () => {
  const { code, err } = await run(["validate", "--sites", "missing"]);
  assertEquals(code, 1);
  assertMatch(err.join(), /^Cannot read --sites "missing": /);
});
