import { assertEquals, assertStringIncludes } from "@std/assert";
import { parse } from "@std/yaml/parse";
import config from "../../deno.json" with { type: "json" };
import { readModules } from "./_sources.ts";
import {
  compileArgs,
  LAZY_PACKAGES,
  TARGETS,
  VERSIONED_FILES,
  withCommit,
  withVersion,
} from "../../tools/release.ts";

/** The parts of a workflow that are checked. */
interface Workflow {
  on: Record<string, unknown>;
  permissions: Record<string, string>;
  jobs: Record<string, Job>;
}

interface Job {
  needs?: string | string[];
  uses?: string;
  permissions?: Record<string, string>;
  steps?: { uses?: string; run?: string; with?: Record<string, string> }[];
}

const WORKFLOWS = ["ci", "release"] as const;

async function readWorkflow(
  name: (typeof WORKFLOWS)[number],
): Promise<{ text: string; workflow: Workflow }> {
  const text = await Deno.readTextFile(`.github/workflows/${name}.yml`);
  return { text, workflow: parse(text) as Workflow };
}

/** Returns the scripts of all steps. */
function scriptsOf({ jobs }: Workflow): string[] {
  return Object.values(jobs).flatMap(({ steps = [] }) =>
    steps.flatMap(({ run }) => run ?? [])
  );
}

for (const name of WORKFLOWS) {
  Deno.test(`.github/workflows/${name}.yml pins every action by commit, and says which version that is`, async () => {
    const { text } = await readWorkflow(name);
    const uses = [...text.matchAll(/uses: (?!\.\/)(.*)/g)].map((
      [, action = ""],
    ) => action);
    assertEquals(
      uses.filter((action) =>
        !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action)
      ),
      [],
    );
    assertEquals(uses.length > 2, true);
  });

  Deno.test(`.github/workflows/${name}.yml runs only tasks, tools and jobs that exist`, async () => {
    const { workflow } = await readWorkflow(name);
    const scripts = scriptsOf(workflow).join("\n");
    const tasks = [...scripts.matchAll(/deno task ([\w:]+)/g)].map((
      [, task = ""],
    ) => task);
    assertEquals(
      tasks.filter((task) => !Object.hasOwn(config.tasks, task)),
      [],
    );
    for (const [, path = ""] of scripts.matchAll(/ (tools\/\w+\.ts)/g)) {
      await Deno.stat(path);
    }
    const jobs = Object.values(workflow.jobs);
    assertEquals(
      jobs.flatMap(({ needs = [] }) => needs).filter((job) =>
        !Object.hasOwn(workflow.jobs, job)
      ),
      [],
    );
    for (const { uses } of jobs) if (uses !== undefined) await Deno.stat(uses);
  });

  Deno.test(`.github/workflows/${name}.yml installs the version of Deno that .ci/run uses`, async () => {
    const { workflow } = await readWorkflow(name);
    const version = /deno@([\d.]+)/.exec(await Deno.readTextFile(".ci/run"))
      ?.[1];
    const steps = Object.values(workflow.jobs).flatMap(({ steps = [] }) =>
      steps
    );
    const installed = steps.flatMap((step) =>
      step.with?.["deno-version"] ?? []
    );
    assertEquals([...new Set(installed)], [version]);
  });
}

Deno.test(".github/workflows/ci.yml can read only, and tests on three systems", async () => {
  const { text, workflow } = await readWorkflow("ci");
  assertEquals(workflow.permissions, { contents: "read" });
  assertEquals(
    Object.values(workflow.jobs).filter(({ permissions }) =>
      permissions !== undefined
    ),
    [],
  );
  assertEquals(
    /os: \[ubuntu-[\d.]+, macos-\d+, windows-\d+\]/.test(text),
    true,
  );
});

Deno.test(".github/workflows/release.yml gives each job what it needs, and publishes nothing unchecked", async () => {
  const { workflow } = await readWorkflow("release");
  assertEquals(workflow.on, { push: { tags: ["v*.*.*"] } });
  assertEquals(workflow.permissions, {});
  const permissions = Object.entries(workflow.jobs).map((
    [name, job],
  ) => [name, job.permissions]);
  assertEquals(Object.fromEntries(permissions), {
    ci: { contents: "read" },
    version: { contents: "read" },
    jsr: { contents: "read", "id-token": "write" },
    npm: { contents: "read", "id-token": "write" },
    image: { contents: "read", packages: "write" },
    "image-index": { packages: "write" },
    binaries: { contents: "write", "id-token": "write", attestations: "write" },
  });
  const publishing = ["jsr", "npm", "image", "binaries"].map((name) =>
    workflow.jobs[name]?.needs
  );
  assertEquals(publishing, publishing.map(() => ["ci", "version"]));
});

Deno.test("a release has binaries for Linux, macOS and Windows, and the workflow starts one", async () => {
  assertEquals(
    TARGETS.map((target) => target.replace(/-(unknown|pc|apple)/, "")),
    [
      "x86_64-linux-gnu",
      "aarch64-linux-gnu",
      "x86_64-darwin",
      "aarch64-darwin",
      "x86_64-windows-msvc",
    ],
  );
  const { workflow } = await readWorkflow("release");
  const started = [
    ...scriptsOf(workflow).join("\n").matchAll(
      /binaries\/rep-gateway-(\S+) --/g,
    ),
  ].map((it) => it[1]);
  assertEquals([...new Set(started)], [TARGETS[0]]);
});

Deno.test("compileArgs() includes the packages that modules import on demand, which Deno would not find", async () => {
  const texts = [...(await readModules("src")).values()];
  const named = texts.flatMap((text) =>
    /: string = "(npm:[^"]+)"/.exec(text)?.[1] ?? []
  );
  assertEquals(new Set(named), new Set(LAZY_PACKAGES));
  const args = compileArgs("x86_64-apple-darwin", "binaries", []);
  assertEquals(
    args.filter((arg) => arg.startsWith("--include=")),
    LAZY_PACKAGES.map((name) => `--include=${name}`),
  );
});

/** Folders without files that name a version: the tests themselves, and what is not part of the project. */
const OTHER_FOLDERS = [".git", "coverage", "node_modules", "npm", "tests"];

/** Returns the paths of all text files below a folder, which ends with a slash or is empty. */
async function filesIn(folder: string): Promise<string[]> {
  const paths = await Array.fromAsync(
    Deno.readDir(folder || "."),
    ({ name, isDirectory, isFile }) => {
      if (isDirectory) {
        return OTHER_FOLDERS.includes(name) ? [] : filesIn(`${folder}${name}/`);
      }
      return isFile && !/\.(png|gif|sqlite3\S*)$/.test(name)
        ? [`${folder}${name}`]
        : [];
    },
  );
  return paths.flat();
}

Deno.test("every file that names the version of the module is one that a release updates", async () => {
  const paths = await filesIn("");
  const texts = await Promise.all(paths.map((path) => Deno.readTextFile(path)));
  const named = paths.filter((_, index) =>
    /(jsr(:|\.io\/)@rep\/gateway[@/]|npm install .*@rep\/gateway@|"@rep\/gateway": ")\d+\.\d+\.\d+/
      .test(
        texts[index] ?? "",
      )
  );
  assertEquals(
    ["deno.json", "docs/openapi.yaml", "src/version.ts", ...named]
      .sort(),
    [...VERSIONED_FILES].sort(),
  );
});

Deno.test("all files name the version in deno.json, and withVersion() changes it in each of them", async () => {
  for (const path of VERSIONED_FILES) {
    const text = await Deno.readTextFile(path);
    assertEquals(withVersion(text, config.version), text, path);
    assertEquals(withVersion(text, "99.0.0") === text, false, path);
  }
});

Deno.test("withCommit() writes a commit into the constant of the version, which a release can still read", async () => {
  const text = await Deno.readTextFile("src/version.ts");
  const stamped = withCommit(text, "1a2b3c4d5e6f");
  assertStringIncludes(stamped, `VERSION = "${config.version}+1a2b3c4d";`);
  assertEquals(withCommit(text, ""), text);
  assertEquals(withVersion(stamped, config.version), stamped);
});
