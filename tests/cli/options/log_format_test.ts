import { assertEquals } from "@std/assert";
import { isTextLog } from "../../../src/cli/options/log_format.ts";

Deno.test("isTextLog() reads --log-format, in every spelling, among invalid options", () => {
  const text = [
    ["--log-format=text"],
    ["--log-format", "text"],
    ["-log-format=text"],
    ["--nonsense", "--log-format=text", "-x"],
    ["--log-format=json", "--log-format=text"],
  ];
  const json = [[], ["--log-format=json"], ["--log-format"], ["text"], ["--log-format=TEXT"], ["--log-formats=text"]];
  assertEquals(text.filter((args) => !isTextLog(args, {})), []);
  assertEquals(json.filter((args) => isTextLog(args, {})), []);
});

Deno.test("isTextLog() reads the environment if there is no flag", () => {
  const environment = { REP_GATEWAY_LOG_FORMAT: "text" };
  assertEquals(isTextLog([], environment), true);
  assertEquals(isTextLog(["--log-format=json"], environment), false);
});
