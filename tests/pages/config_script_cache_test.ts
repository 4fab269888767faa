import { assertEquals } from "@std/assert";
import { Epochs } from "../../src/keys/epochs.ts";
import { ConfigScriptCache } from "../../src/pages/config_script_cache.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { captureLog } from "../_gateway.ts";

Deno.test("ConfigScriptCache logs that pages lack SENSITIVE values while the master key is unavailable", async () => {
  const clock = new FakeClock();
  const { log, lines } = captureLog();
  let isDown = true;
  const masterKey = () =>
    isDown
      ? Promise.reject(new Error("down"))
      : Promise.resolve(new Uint8Array(32));
  const snapshot = {
    public: new Map([["A", "1"]]),
    sensitive: new Map([["S", "2"]]),
  };
  const cache = new ConfigScriptCache({
    current: () => ({ values: snapshot, cursor: 0 }),
    hotReload: false,
    basePath: "",
    epochs: new Epochs({
      clock,
      masterKey,
      rotationMs: 600_000,
      retentionMs: 0,
    }),
    clock,
    log,
  });
  const hasSensitive = async () => (await cache.get()).isSecret;
  assertEquals([await hasSensitive(), await hasSensitive()], [false, false]);
  assertEquals(
    lines.map(({ level, msg, detail }) => [level, msg, detail]),
    Array(2).fill([
      "ERROR",
      "rep.page.without_sensitive",
      "the master key is unavailable: down",
    ]),
  );
  isDown = false;
  assertEquals([await hasSensitive(), lines.length], [true, 2]);
});
