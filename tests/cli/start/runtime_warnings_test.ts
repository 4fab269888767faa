// deno-lint-ignore-file no-console -- the function under test replaces console.warn
import { assertEquals } from "@std/assert";
import { logRuntimeWarnings } from "../../../src/cli/start/start_log.ts";
import { captureLog } from "../../_gateway.ts";

Deno.test("logRuntimeWarnings() logs what is printed with console.warn, except for what no user can follow", () => {
  const { warn } = console;
  const { log, lines } = captureLog();
  try {
    logRuntimeWarnings(log);
    console.warn("Deno.serve:", "deprecated");
    console.warn(
      "Deno.serve: request.signal aborts. Opt in to the new behavior with --unstable-no-legacy-abort.",
    );
  } finally {
    console.warn = warn;
  }
  assertEquals(
    lines.map(({ level, msg, detail }) => ({ level, msg, detail })),
    [
      {
        level: "WARN",
        msg: "rep.runtime.warning",
        detail: "Deno.serve: deprecated",
      },
    ],
  );
});
