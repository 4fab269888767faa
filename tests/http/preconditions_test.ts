import { assertEquals } from "@std/assert";
import {
  failedPrecondition,
  ifNoneMatchFails,
  ifRangeHolds,
  type Validators,
} from "../../src/http/preconditions.ts";

const AT = "Sun, 06 Nov 1994 08:49:37 GMT";
const BEFORE = "Sun, 06 Nov 1994 08:49:36 GMT";
const AFTER = "Sun, 06 Nov 1994 08:49:38 GMT";

const VALIDATORS: Validators = {
  etag: '"now"',
  lastModified: new Date("1994-11-06T08:49:37.900Z"),
};

type Case = [headers: Record<string, string>, status: 304 | 412 | undefined];

const CASES: Case[] = [
  [{}, undefined],
  [{ "if-none-match": '"now"' }, 304],
  [{ "if-none-match": 'W/"now"' }, 304],
  [{ "if-none-match": '"old" ,W/"older",  "now"' }, 304],
  [{ "if-none-match": " * " }, 304],
  [{ "if-none-match": '"old"' }, undefined],
  [{ "if-none-match": '"NOW"' }, undefined],
  [{ "if-none-match": "now" }, undefined],
  [{ "if-none-match": "" }, undefined],
  [{ "if-modified-since": AT }, 304],
  [{ "if-modified-since": AFTER }, 304],
  [{ "if-modified-since": BEFORE }, undefined],
  [{ "if-modified-since": "Sunday, 06-Nov-94 08:49:37 GMT" }, 304],
  [{ "if-modified-since": "Sunday, 06-Nov-94 08:49:36 GMT" }, undefined],
  [{ "if-modified-since": "Sun Nov  6 08:49:37 1994" }, 304],
  [{ "if-modified-since": "Sun Nov  6 08:49:36 1994" }, undefined],
  [{ "if-modified-since": "9999" }, undefined],
  [{ "if-modified-since": "2026-11-06T00:00:00Z" }, undefined],
  [{ "if-modified-since": "Sun, 99 Nov 9999 08:49:37 GMT" }, undefined],
  [{ "if-modified-since": `${AFTER}, ${AFTER}` }, undefined],
  [{ "if-none-match": '"old"', "if-modified-since": AFTER }, undefined], // §13.1.3: If-Modified-Since is ignored
  [{ "if-none-match": '"now"', "if-modified-since": BEFORE }, 304],
  [{ "if-match": '"now"' }, undefined],
  [{ "if-match": '"old", "now"' }, undefined],
  [{ "if-match": "*" }, undefined],
  [{ "if-match": '"old"' }, 412],
  [{ "if-match": 'W/"now"' }, 412], // §13.1.1: strong comparison
  [{ "if-unmodified-since": AT }, undefined],
  [{ "if-unmodified-since": BEFORE }, 412],
  [{ "if-unmodified-since": "yesterday" }, undefined],
  [{ "if-match": '"now"', "if-unmodified-since": BEFORE }, undefined],
  [{ "if-match": '"now"', "if-none-match": '"now"' }, 304],
  [{ "if-match": '"old"', "if-none-match": '"now"' }, 412],
];

for (const [headers, status] of CASES) {
  Deno.test(`failedPrecondition() returns ${status} for ${JSON.stringify(headers)}`, () => {
    assertEquals(failedPrecondition(new Headers(headers), VALIDATORS), status);
  });
}

const NOTHING: Validators = { etag: undefined, lastModified: undefined };

const WITHOUT_VALIDATORS: Case[] = [
  [{ "if-none-match": '"now"' }, undefined],
  [{ "if-none-match": "undefined" }, undefined],
  [{ "if-none-match": "*" }, 304],
  [{ "if-modified-since": AFTER }, undefined],
  [{ "if-match": '"now"' }, 412],
  [{ "if-unmodified-since": BEFORE }, undefined],
];

for (const [headers, status] of WITHOUT_VALIDATORS) {
  Deno.test(`failedPrecondition() returns ${status} for ${JSON.stringify(headers)} without validators`, () => {
    assertEquals(failedPrecondition(new Headers(headers), NOTHING), status);
  });
}

Deno.test("failedPrecondition() parses a list with 60 KB of spaces in linear time", () => {
  const before = performance.now();
  assertEquals(
    failedPrecondition(
      new Headers({ "if-none-match": `a${" ".repeat(60_000)}b` }),
      VALIDATORS,
    ),
    undefined,
  );
  assertEquals(performance.now() - before < 1_500, true); // a quadratic parser takes about three seconds
});

const IF_NONE_MATCH: [
  header: string | undefined,
  etag: string | undefined,
  fails: boolean,
][] = [
  [undefined, '"now"', false],
  ['"now"', '"now"', true],
  ['W/"now"', '"now"', true],
  ['"now"', 'W/"now"', true],
  ['W/"now"', 'W/"now"', true],
  ['"old", W/"now"', 'W/"now"', true],
  ['"old"', 'W/"now"', false],
  ["*", 'W/"now"', true],
  ["*", undefined, true],
  ["undefined", undefined, false],
];

for (const [header, etag, fails] of IF_NONE_MATCH) {
  Deno.test(`ifNoneMatchFails() returns ${fails} for ${header} when the entity tag is ${etag}`, () => {
    const headers = new Headers(
      header === undefined ? {} : { "if-none-match": header },
    );
    assertEquals(ifNoneMatchFails(headers, etag), fails);
  });
}

const IF_RANGE: [value: string, holds: boolean][] = [
  ['"now"', true],
  ['"old"', false],
  ['W/"now"', false], // §13.1.5: strong comparison
  ['"old", "now"', false],
  ["*", false],
  [AT, true],
  [BEFORE, false],
  [AFTER, false], // the exact date only
  ["undefined", false],
];

for (const [value, holds] of IF_RANGE) {
  Deno.test(`ifRangeHolds() returns ${holds} for ${value}`, () => {
    assertEquals(
      ifRangeHolds(new Headers({ "if-range": value }), VALIDATORS),
      holds,
    );
  });
}

Deno.test("ifRangeHolds() returns true without a condition", () => {
  assertEquals(ifRangeHolds(new Headers(), VALIDATORS), true);
  assertEquals(ifRangeHolds(new Headers(), NOTHING), true);
});

Deno.test("ifRangeHolds() returns false for any condition without validators", () => {
  assertEquals(
    ifRangeHolds(new Headers({ "if-range": '"now"' }), NOTHING),
    false,
  );
});
