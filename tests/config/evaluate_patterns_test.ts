import { assertEquals, assertRejects } from "@std/assert";
import { evaluatePatterns, PATTERN_TIMEOUT_MS, type PatternResult } from "../../src/config/evaluate_patterns.ts";
import { buildSnapshot, ConfigurationError } from "../../src/config/snapshot.ts";

const HOSTILE = { pattern: /^(?:(a+)+$)$/u, value: `${"a".repeat(40)}b` };

/** Measures how long the event loop was blocked at most while something ran, in milliseconds. */
async function longestBlock(run: () => Promise<unknown>): Promise<number> {
  let last = performance.now();
  let longest = 0;
  const measure = () => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  };
  const timer = setInterval(measure, 1);
  await run();
  clearInterval(timer);
  measure();
  return longest;
}

/** Runs something where there are no workers. */
async function withoutWorkers<T>(run: () => Promise<T>): Promise<T> {
  const { Worker } = globalThis;
  globalThis.Worker = class {
    constructor() {
      throw new Error("Not supported");
    }
  } as unknown as typeof Worker;
  try {
    return await run();
  } finally {
    globalThis.Worker = Worker;
  }
}

const CASES: readonly (readonly [RegExp, string, PatternResult])[] = [
  [/^(?:[a-z]+)$/u, "abc", "match"],
  [/^(?:[a-z]+)$/u, "ABC", "mismatch"],
  [/^(?:\\-)$/, "\\-", "match"],
  [new RegExp("x?".repeat(100_000)), "a", "failed"], // too large
  [HOSTILE.pattern, HOSTILE.value, "timeout"],
  [/^(?:a)$/, "a", "skipped"],
];

Deno.test("evaluatePatterns() evaluates patterns with a deadline in a worker", async () => {
  const checks = CASES.map(([pattern, value]) => ({ pattern, value }));
  assertEquals(await evaluatePatterns(checks, 500), CASES.map(([, , expected]) => expected));
});

Deno.test("evaluatePatterns() evaluates patterns on the main thread where there are no workers", async () => {
  const cases = CASES.filter(([, , expected]) => expected !== "timeout" && expected !== "skipped");
  const checks = cases.map(([pattern, value]) => ({ pattern, value }));
  assertEquals(await withoutWorkers(() => evaluatePatterns(checks)), cases.map(([, , expected]) => expected));
});

Deno.test("evaluatePatterns() does not block the event loop", async () => {
  const longest = await longestBlock(() => evaluatePatterns([HOSTILE], 1_000));
  assertEquals(longest < 500, true, `blocked for ${longest} ms`);
});

Deno.test("evaluatePatterns() starts no worker without patterns", async () => {
  const { Worker } = globalThis;
  let started = 0;
  globalThis.Worker = class extends Worker {
    constructor(...parameters: ConstructorParameters<typeof Worker>) {
      super(...parameters);
      started++;
    }
  };
  try {
    assertEquals(await evaluatePatterns([]), []);
    assertEquals(started, 0);
    assertEquals(await evaluatePatterns([{ pattern: /a/, value: "a" }]), ["match"]);
    assertEquals(started, 1);
  } finally {
    globalThis.Worker = Worker;
  }
});

Deno.test("evaluatePatterns() needs no permission but to listen, and its thread does not outlive it", async () => {
  const url = new URL("../../src/config/evaluate_patterns.ts", import.meta.url);
  const program = `import { evaluatePatterns } from "${url}";
    console.log(...await evaluatePatterns([{ pattern: /^(a+)+$/, value: "a".repeat(40) + "b" }], 50));`;
  const directory = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${directory}/main.ts`, program);
    const args = [
      "run",
      "--no-config",
      "--no-lock",
      "--no-check",
      "--no-prompt",
      "--allow-net",
      `${directory}/main.ts`,
    ];
    const command = new Deno.Command(Deno.execPath(), { args, env: { NO_COLOR: "1" }, stdin: "null" });
    const { stdout, stderr } = await command.output(); // only when the thread has ended
    assertEquals([stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)), ["timeout\n", ""]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("buildSnapshot() rejects a pattern that exceeds its deadline, by the name of the variable", async () => {
  const V = { tier: "sensitive", pattern: HOSTILE.pattern.source.slice("^(?:".length, -")$".length) };
  const manifest = JSON.stringify({ version: "0.1.0", variables: { V } });
  const environment = { REP_SENSITIVE_V: HOSTILE.value };
  const error = await assertRejects(() => buildSnapshot({ environment, manifest, strict: false }), ConfigurationError);
  const expected = `expected a pattern that takes at most ${PATTERN_TIMEOUT_MS} ms`;
  assertEquals(error.issues, [`Cannot use REP_SENSITIVE_V: ${expected}, got the pattern in the manifest`]);
});

Deno.test("evaluatePatterns() tries three workers that end unexpectedly, and catches their errors", async () => {
  const { Worker } = globalThis;
  let prevented = 0;
  globalThis.Worker = class {
    onerror?: (event: Pick<ErrorEvent, "message" | "preventDefault">) => void;
    postMessage() {
      queueMicrotask(() => this.onerror?.({ message: "gone", preventDefault: () => prevented++ }));
    }
    terminate() {}
  } as unknown as typeof Worker;
  try {
    assertEquals(await evaluatePatterns([{ pattern: /a/, value: "a" }]), ["failed"]);
    assertEquals(prevented, 3);
  } finally {
    globalThis.Worker = Worker;
  }
});
