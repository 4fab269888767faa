import { deadline } from "@std/async/deadline";
import type { SseReader } from "../_sse.ts";
import {
  type Check,
  expect,
  expectEqual,
  Nonconformance,
  STANDARD,
} from "./check.ts";
import type { Launcher, Setup } from "./launcher.ts";

/** How long a change may take, which the gateway finds by polling each second. */
const TIMEOUT_MS = 15_000;

const CHANGED =
  "REP_PUBLIC_LIVE=second\nREP_PUBLIC_GONE=here\nREP_SENSITIVE_FOURTH=hidden-1\nREP_SERVER_FIFTH=hidden-2\n";
const WITHOUT_GONE = "REP_PUBLIC_LIVE=first\n";

/** §4.6 and the log of §4.3 of the security model. */
export const CHANGE_CHECKS: readonly Check[] = [
  {
    id: "4.6-update",
    async run(launcher) {
      const { stream, message } = await changeOf(
        launcher,
        { ...STANDARD },
        CHANGED,
      );
      const data = { key: "LIVE", tier: "public", value: "second" };
      expectEqual("the event", [message.event, message.data], [
        "rep:config:update",
        data,
      ]);
      expect(Number.isInteger(message.id), "expected an id of digits");
      expect(
        !stream.text().includes("hidden"),
        "expected no SENSITIVE or SERVER values",
      );
    },
  },
  {
    id: "4.6-delete",
    async run(launcher) {
      const { message } = await changeOf(
        launcher,
        { ...STANDARD },
        WITHOUT_GONE,
      );
      expectEqual("the event", [message.event, message.data], [
        "rep:config:delete",
        { key: "GONE", tier: "public" },
      ]);
    },
  },
  {
    id: "4.6-modes",
    async run(launcher) {
      const modes = {
        signal: {},
        file_watch: { "watch-path": "{dir}/app.env" },
        poll: { "poll-interval": "1s" },
      };
      for (const [mode, options] of Object.entries(modes)) {
        const setup = {
          ...STANDARD,
          options: { ...STANDARD.options, "hot-reload-mode": mode, ...options },
        };
        const { message } = await changeOf(
          launcher,
          setup,
          CHANGED,
          mode === "signal",
        );
        expectEqual(`the value with ${mode}`, message.data.value, "second");
      }
    },
  },
  { id: "S4.3", run: checkAuditEvents },
  {
    id: "S4.3-payload",
    async run(launcher) {
      const subject = await launcher.start(STANDARD);
      await subject.page("/");
      const hasEvent = subject.lines().some(({ msg }) =>
        msg === "rep.integrity.payload_generated"
      );
      expect(hasEvent, "expected rep.integrity.payload_generated in the log");
    },
  },
];

/** Changes the env file while a stream is open, and returns its first event. */
async function changeOf(
  launcher: Launcher,
  setup: Setup,
  envFile: string,
  bySignal = true,
) {
  const subject = await launcher.start(setup);
  const stream = await subject.changes(await subject.page("/"));
  try {
    await launcher.writeEnvFile(envFile);
    if (bySignal) subject.signal("SIGHUP");
    return { subject, stream, message: await firstMessage(stream) };
  } finally {
    await stream.close();
  }
}

async function firstMessage(stream: SseReader) {
  const [message] = await deadline(stream.take(1), TIMEOUT_MS).catch(() => {
    throw new Nonconformance(
      `expected an event within ${TIMEOUT_MS / 1_000} s`,
    );
  });
  return message!;
}

async function checkAuditEvents(launcher: Launcher): Promise<void> {
  const variables = {
    ...STANDARD.variables,
    REP_PUBLIC_AWS: "AKIA" + "IOSFODNN7EXAMPLE",
  };
  const options = {
    ...STANDARD.options,
    "allowed-origins": "https://app.example",
  };
  const { subject } = await changeOf(launcher, {
    ...STANDARD,
    variables,
    options,
  }, CHANGED);
  await subject.logged("rep.guardrail.warning", [
    "variable_name",
    "detection_type",
  ]);
  await subject.logged("rep.config.changed", ["key", "tier", "action"]);
  await subject.ask("/rep/session-key", {
    headers: { origin: "https://elsewhere.example" },
  });
  await subject.logged("rep.session_key.rejected", ["client_ip", "reason"]);
  for (let count = 0; count <= 10; count++) {
    await subject.ask("/rep/session-key", {
      headers: { origin: "https://app.example" },
    });
  }
  await subject.logged("rep.session_key.rate_limited", [
    "client_ip",
    "requests_in_window",
  ]);
}
