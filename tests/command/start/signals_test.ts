import { assertEquals } from "@std/assert";
import { onSignals } from "../../../src/command/start/signals.ts";
import { bareProcess } from "../../_bare_process.ts";
import { captureLog } from "../../_gateway.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";

Deno.test("onSignals() goes on without a signal that the platform does not have", () => {
  const { log, lines } = captureLog();
  const { addSignalListener } = Deno;
  const heard: Deno.Signal[] = [];
  Deno.addSignalListener = (signal) => {
    if (signal === "SIGTERM") throw new TypeError("not allowed");
    heard.push(signal);
  };
  try {
    onSignals({ reload() {}, stop: () => Promise.resolve(), log });
  } finally {
    Deno.addSignalListener = addSignalListener;
  }
  assertEquals(heard, ["SIGINT", "SIGHUP"]);
  assertEquals(
    lines.map(({ level, msg, signal, detail }) => [level, msg, signal, detail]),
    [[
      "WARN",
      "rep.signal.missing",
      "SIGTERM",
      "this platform does not pass it on: TypeError: not allowed",
    ]],
  );
});

Deno.test("onSignals() stops when the terminal is closed, and reloads if it had gone before, is still there, or never was", async () => {
  const { addSignalListener, stdin } = Deno;
  const { isTerminal } = stdin;
  const { log } = captureLog();
  const heard: string[] = [];
  try {
    for (
      const looks of [[true, false], [true, false, false], [true], [false]]
    ) {
      const clock = new FakeClock();
      let hangUp = () => {};
      Deno.addSignalListener = (signal, listener) => {
        if (signal === "SIGHUP") hangUp = listener;
      };
      stdin.isTerminal = () => looks.length > 1 ? looks.shift()! : looks[0]!;
      const isSeen = looks.length === 3;
      onSignals({
        reload: () => heard.push("reload"),
        stop: () => Promise.resolve(void heard.push("stop")),
        log,
        exit() {},
        clock,
      });
      if (isSeen) await clock.tick(1_000);
      hangUp();
    }
  } finally {
    Object.assign(Deno, { addSignalListener });
    stdin.isTerminal = isTerminal;
  }
  assertEquals(heard, ["stop", "reload", "reload", "reload"]);
});

Deno.test("onSignals() exits with code 1 if the shutdown throws, and logs the error", async () => {
  await using process = await bareProcess(
    `
    import { onSignals } from "src/command/start/signals.ts";
    onSignals({ log, reload() {}, stop: () => Promise.reject(new Error("the store is stuck")) });
    setInterval(() => {}, 1_000);
    Deno.kill(Deno.pid, "SIGTERM");
  `,
    { flags: ["--allow-run"] },
  );
  const lines = await Array.fromAsync(process.lines) as [
    event: string,
    fields: { detail: string },
  ][];
  assertEquals(lines.map(([event]) => event), [
    "rep.stopping",
    "rep.stop.failed",
  ]);
  assertEquals(
    lines[1]?.[1].detail.split("\n")[0],
    "Error: the store is stuck",
  );
  assertEquals((await process.child.status).code, 1);
});

for (
  const [kind, statement] of [
    ["an error", 'throw new Error("uncaught");'],
    ["a rejection", 'void Promise.reject(new Error("uncaught"));'],
  ]
) {
  Deno.test(`onSignals() logs ${kind} that nothing caught, stops, and exits with code 1`, async () => {
    await using process = await bareProcess(`
      import { onSignals } from "src/command/start/signals.ts";
      async function stop() {
        say("stop");
        setTimeout(() => { throw new Error("again"); });
        await new Promise((resolve) => setTimeout(resolve, 50));
        say("stopped");
      }
      onSignals({ log, reload() {}, stop });
      setInterval(() => {}, 1_000);
      setTimeout(() => { ${statement} });
    `);
    const lines = await Array.fromAsync(process.lines) as [
      event: string,
      fields?: { detail: string },
    ][];
    assertEquals(
      lines.map(([event, fields]) => [event, fields?.detail.split("\n")[0]]),
      [
        ["rep.uncaught", "Error: uncaught"],
        ["stop", undefined],
        ["rep.uncaught", "Error: again"],
        ["stopped", undefined],
      ],
    );
    assertEquals((await process.child.status).code, 1);
  });
}

Deno.test("onSignals() exits with code 1 if nothing catches an error during the shutdown", async () => {
  await using process = await bareProcess(
    `
    import { onSignals } from "src/command/start/signals.ts";
    async function stop() {
      setTimeout(() => { throw new Error("uncaught"); });
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    onSignals({ log, reload() {}, stop });
    setInterval(() => {}, 1_000);
    Deno.kill(Deno.pid, "SIGTERM");
  `,
    { flags: ["--allow-run"] },
  );
  const lines = await Array.fromAsync(process.lines) as [string][];
  assertEquals(
    lines.map(([event]) => event),
    ["rep.stopping", "rep.uncaught", "rep.stopped"],
  );
  assertEquals((await process.child.status).code, 1);
});
