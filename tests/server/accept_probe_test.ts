import { assertEquals } from "@std/assert";
import { AcceptProbe } from "../../src/server/accept_probe.ts";
import { FakeClock } from "../../tools/fake_clock.ts";

/** What happens to a probe, and whether the server is then taken for dead. */
const CASES: readonly [what: string, connect: (accepted: () => void) => Promise<void>, isSilent: boolean][] = [
  ["a server that accepts", (accepted) => Promise.resolve(accepted()), false],
  ["a server whose connections nobody accepts", () => Promise.resolve(), true],
  ["a server whose backlog is full", () => new Promise(() => {}), true],
  ["a process without a free file descriptor", () => Promise.reject(new Error("Too many open files")), false],
];

for (const [what, connect, isSilent] of CASES) {
  Deno.test(`AcceptProbe reports ${isSilent ? "" : "no "}silence of ${what}`, async () => {
    const clock = new FakeClock();
    let reports = 0;
    const probe = new AcceptProbe({
      clock,
      connect: () => connect(() => probe.accepted()),
      onSilence: () => reports++,
    });
    await clock.tick(30_000);
    assertEquals(reports, isSilent ? 1 : 0);
    probe.close();
    assertEquals(clock.waiting, 0);
  });
}

Deno.test("AcceptProbe does not probe a server that clients connect to, and nothing after close()", async () => {
  const clock = new FakeClock();
  let probes = 0;
  const connect = () => Promise.resolve(void probes++);
  const probe = new AcceptProbe({ clock, connect, onSilence() {} });
  for (let i = 0; i < 5; i++) {
    probe.accepted();
    await clock.tick(5_000);
  }
  probe.close();
  await clock.tick(30_000);
  assertEquals(probes, 0);
});
