/**
 * How changes reach a page, event by event: what neither `client_test.ts` nor the model, `transport_model_test.ts`, shows as
 * sharply.
 */
import { assertEquals } from "@std/assert";
import {
  advance,
  CLOSED,
  CONNECTING,
  MAX_MUTE,
  OPEN,
  RECEIVED,
  RESUME,
  SILENT,
  START,
  type Transport,
} from "../../src/client/transport.ts";

/** At this second this happens; what the client does, and when its timer is due, in seconds from then on. */
type Step = readonly [second: number, event: number, action: string];

const HOUR = 3_600;

function repeat(times: number, step: Step): Step[] {
  return Array.from({ length: times }, () => step);
}

const BEGINS_TO_POLL: Step[] = [
  [0, START, "opens a stream, due in 20"],
  [0, OPEN, "stays, due in 20"],
  [20, SILENT, "waits, due in 0.75"],
  [21, START, "opens a stream, due in 20"],
  [21, OPEN, "stays, due in 20"],
  [41, SILENT, "waits, due in 1.5"],
  [42, START, "opens a poll, due in 30"],
];

const SCENARIOS: Record<string, Step[]> = {
  "a stream is mute without a heartbeat within 20 s of its request, and for 45 s later":
    [
      [0, START, "opens a stream, due in 20"],
      [5, OPEN, "stays, due in 15"],
      [6, RECEIVED, "stays, due in 45"],
      [20, RECEIVED, "stays, due in 45"],
      [65, SILENT, "waits, due in 0.375"],
      [65.375, START, "opens a stream, due in 20"],
    ],
  "after two mute streams in a row, the page polls": BEGINS_TO_POLL,
  "a heartbeat between two mute streams resets the count": [
    [0, START, "opens a stream, due in 20"],
    [20, SILENT, "waits, due in 0.75"],
    [21, START, "opens a stream, due in 20"],
    [21, OPEN, "stays, due in 20"],
    [21, RECEIVED, "stays, due in 45"],
    [66, SILENT, "waits, due in 0.375"],
    [67, START, "opens a stream, due in 20"],
  ],
  "the pause before the browser reconnects does not count": [
    [0, START, "opens a stream, due in 20"],
    [0, OPEN, "stays, due in 20"],
    [0, RECEIVED, "stays, due in 45"],
    [40, CONNECTING, "stays, due in 80"], // 60 s for the pause, 20 s for the request
    [100, OPEN, "stays, due in 20"],
    [100, RECEIVED, "stays, due in 45"],
    [101, CONNECTING, "stays, due in 80"],
    [181, SILENT, "waits, due in 0.75"],
  ],
  "polls go on with the pauses that the gateway wants, for an hour": [
    ...BEGINS_TO_POLL,
    [42, OPEN, "stays, due in 30"],
    [43, RECEIVED, "stays, due in 29"],
    [44, CONNECTING, "stays, due in 90"],
    [50, OPEN, "stays, due in 30"],
    [50, RECEIVED, "stays, due in 30"],
    [51, CONNECTING, "stays, due in 90"],
    [HOUR + 30, CONNECTING, "stays, due in 90"], // many polls later
    [HOUR + 40, OPEN, "stays, due in 30"],
    [HOUR + 40, RECEIVED, "stays, due in 30"],
    [HOUR + 40.9, CONNECTING, "stays, due in 90"],
    [HOUR + 50, OPEN, "stays, due in 30"],
    [HOUR + 50, RECEIVED, "stays, due in 30"],
    [HOUR + 51, CONNECTING, "opens a stream, due in 20"],
  ],
  "one mute stream after a poll is enough": [
    ...BEGINS_TO_POLL,
    [42, OPEN, "stays, due in 30"],
    [42, RECEIVED, "stays, due in 30"],
    [HOUR + 51, CONNECTING, "opens a stream, due in 20"],
    [HOUR + 51, OPEN, "stays, due in 20"],
    [HOUR + 71, SILENT, "waits, due in 0.75"],
    [HOUR + 72, START, "opens a poll, due in 30"],
  ],
  "a page that is shown again polls once, then tries a stream": [
    [0, START, "opens a stream, due in 20"],
    [0, OPEN, "stays, due in 20"],
    [0, RECEIVED, "stays, due in 45"],
    [30, RESUME, "opens a poll, due in 30"],
    [31, OPEN, "stays, due in 29"],
    [31, RECEIVED, "stays, due in 29"],
    [31, CONNECTING, "opens a stream, due in 20"],
    [51, SILENT, "waits, due in 0.75"],
    [52, START, "opens a poll, due in 30"],
  ],
  "a poll that never got a response is no poll, even if the page was offline": [
    [0, RESUME, "opens a poll, due in 30"],
    [0, CONNECTING, "stays, due in 90"],
    [3, CONNECTING, "waits, due in 1.5"],
    [4.5, START, "opens a poll, due in 30"],
    [4.5, CONNECTING, "waits, due in 3"],
    [7.5, START, "opens a poll, due in 30"],
    [7.5, OPEN, "stays, due in 30"],
    [7.5, RECEIVED, "stays, due in 30"],
    [7.5, CONNECTING, "opens a stream, due in 20"],
  ],
  "streams that end without a heartbeat are errors": [
    [0, START, "opens a stream, due in 20"],
    [0, OPEN, "stays, due in 20"],
    [15, CONNECTING, "stays, due in 80"],
    [20, OPEN, "stays, due in 20"],
    [35, CONNECTING, "waits, due in 1.5"],
    [37, START, "opens a poll, due in 30"],
    [37, OPEN, "stays, due in 30"],
    [37, RECEIVED, "stays, due in 30"],
    [37, CONNECTING, "opens a stream, due in 20"],
  ],
  "after twelve requests at once, there is one in five seconds": [
    ...repeat(13, [0, START, "opens a stream, due in 20"]),
    [0, START, "waits, due in 5"],
    [1, RESUME, "waits, due in 4"],
    [5, START, "opens a poll, due in 30"],
    [5, START, "waits, due in 5"],
  ],
  "a browser that reconnects more often than that is stopped": [
    [0, START, "opens a stream, due in 20"],
    ...Array.from({ length: 12 }, (): Step[] => [
      [0, RECEIVED, "stays, due in 45"],
      [0, CONNECTING, "stays, due in 80"],
    ]).flat(),
    [0, RECEIVED, "stays, due in 45"],
    [0, CONNECTING, "waits, due in 5"],
  ],
};

/** The same, for a client that polls every 30 s. */
const POLLING: Record<string, [random: number, steps: Step[]]> = {
  "the next poll comes after 0.75 intervals at least": [0, [
    [0, START, "opens a poll, due in 30"],
    [0.1, OPEN, "stays, due in 29.9"],
    [0.1, RECEIVED, "stays, due in 29.9"],
    [0.1, CONNECTING, "waits, due in 22.5"],
    [22.6, START, "opens a poll, due in 30"],
  ]],
  "and after 1.25 at most": [1, [
    [0, START, "opens a poll, due in 30"],
    [0, RECEIVED, "stays, due in 30"],
    [0, CONNECTING, "waits, due in 37.5"],
  ]],
  "it never tries a stream, whatever happens": [0.5, [
    ...repeat(3, [0, START, "opens a poll, due in 30"]),
    [0, RECEIVED, "stays, due in 30"],
    [0, CONNECTING, "waits, due in 30"],
    [2 * HOUR, RESUME, "opens a poll, due in 30"],
    [2 * HOUR, RECEIVED, "stays, due in 30"],
    [2 * HOUR, CONNECTING, "waits, due in 30"],
    [2 * HOUR + 30, START, "opens a poll, due in 30"],
    [2 * HOUR + 60, SILENT, "waits, due in 22.5"],
    [2 * HOUR + 83, START, "opens a poll, due in 30"],
  ]],
  "a page that is shown or online again polls at once": [0.5, [
    [0, START, "opens a poll, due in 30"],
    [0, RECEIVED, "stays, due in 30"],
    [0, CONNECTING, "waits, due in 30"],
    [1, RESUME, "opens a poll, due in 30"],
    [1, RECEIVED, "stays, due in 30"],
    [1, CONNECTING, "waits, due in 30"],
  ]],
  "after an error, it waits for half an interval at least, however the browser takes it":
    [0, [
      [0, START, "opens a poll, due in 30"],
      [0, CLOSED, "waits, due in 15"],
      [15, START, "opens a poll, due in 30"],
      [15, CONNECTING, "waits, due in 15"], // not twice as long: a page is at most 30 s late
      [30, START, "opens a poll, due in 30"],
      [30, RECEIVED, "stays, due in 30"],
      [30, CONNECTING, "waits, due in 22.5"],
    ]],
  "and for an interval at most": [1, [
    [0, START, "opens a poll, due in 30"],
    [0, CLOSED, "waits, due in 30"],
    [30, START, "opens a poll, due in 30"],
    [30, CLOSED, "waits, due in 30"],
  ]],
};

/** The first pauses after errors, in seconds, at the least and at the most. */
const PAUSES: [intervalS: number, least: number[], most: number[]][] = [
  [10, [5, 10, 15, 15], [10, 20, 30, 30]],
  [15, [7.5, 15, 15], [15, 30, 30]],
  [60, [30, 30], [60, 60]],
  [3_600, [1_800, 1_800], [3_600, 3_600]],
];

/** Says what the client does. */
function describe({ poll, waitMs, until }: Transport, second: number) {
  const kind = poll ? "poll" : "stream";
  const action = waitMs === undefined
    ? "stays"
    : waitMs > 0
    ? "waits"
    : `opens a ${kind}`;
  return `${action}, due in ${Math.round(until - second * 1_000) / 1_000}`;
}

for (const [name, steps] of Object.entries(SCENARIOS)) {
  Deno.test(`advance(): ${name}`, () => {
    let transport: Partial<Transport> = {};
    for (const [second, event, action] of steps) {
      const next = advance(transport, event, second * 1_000, 0.5);
      assertEquals(describe(next, second), action, `at ${second} s`);
      transport = next;
    }
  });
}

for (const [name, [random, steps]] of Object.entries(POLLING)) {
  Deno.test(`advance() with an interval: ${name}`, () => {
    let transport: Partial<Transport> = { mute: MAX_MUTE, pollMs: 30_000 };
    for (const [second, event, action] of steps) {
      const next = advance(transport, event, second * 1_000, random);
      assertEquals(describe(next, second), action, `at ${second} s`);
      transport = next;
    }
  });
}

for (const [intervalS, ...pauses] of PAUSES) {
  Deno.test(`advance() with an interval of ${intervalS} s backs off after errors`, () => {
    for (const [random, expected] of pauses.entries()) {
      let transport: Partial<Transport> = {
        mute: MAX_MUTE,
        pollMs: intervalS * 1_000,
      };
      let now = 0;
      const waits = expected.map(() => {
        const opened = advance(transport, START, now, random);
        transport = advance(opened, CLOSED, now, random);
        now += transport.waitMs!;
        return transport.waitMs! / 1_000;
      });
      assertEquals(waits, expected);
    }
  });
}
