import { assert, assertEquals } from "@std/assert";
import { createParser, type EventSourceMessage } from "eventsource-parser";
import * as fc from "fast-check";
import { isIP } from "node:net";
import { STREAM_FORMS } from "../../src/core/changes/stream_forms.ts";
import { CLIENT_READ_MS, eventFrame } from "../../src/core/changes/tail.ts";
import { parseCommandManifest } from "../../src/command/options/manifest_settings.ts";
import {
  buildSnapshot,
  ConfigurationError,
} from "../../src/core/config/variables/snapshot.ts";
import { typeIssue } from "../../src/core/config/variables/apply_manifest.ts";
import { parseByteRange } from "../../src/core/http/send.ts";
import { createGateway } from "../../src/gateway.ts";
import type { Gateway } from "../../src/gateway_interface.ts";
import {
  resolveClient,
  trustRule,
} from "../../src/core/http/client_address.ts";
import {
  corsHeaders,
  normalizeOrigin,
  originRejection,
} from "../../src/core/http/origin.ts";
import { escapeForScript } from "../../src/core/pages/config_script.ts";
import { injectScript } from "../../src/core/pages/insert_script.ts";
import { FakeClock } from "../../tools/fake_clock.ts";
import { EventStreamParser } from "../model/_event_stream_parser.ts";
import { assertInserted } from "../core/pages/_html_oracle.ts";
import { chunksOf, headerOf, testProperty, textOf } from "./_property.ts";
import { snapshotInput } from "../_snapshot.ts";

const CUTS = fc.array(fc.nat(), { maxLength: 6 });

const YAML_PIECES = [
  ..."version: |0.1.0|\n|variables:|settings:|  A:|  B: |\n    |tier: public|type: url|type: enum|required: true|default: |"
    .split("|"),
  ...'values: [a, b]|pattern: "^[a-z]+$"|pattern: "["|deprecated: true|- |&a |*a|!!js |{|}|[|]|"|\t|# |<<: |~|1e400|? |%|tier: pubic|teir: server|type: nubmer|default: ${HOST}|requird: yes|x: s3cret'
    .split("|"),
];

testProperty(
  "parseCommandManifest() reports issues and throws nothing",
  textOf(YAML_PIECES),
  (text) => {
    const { issues } = parseCommandManifest(text, undefined);
    for (const issue of issues) assert(issue.startsWith("Cannot "), issue);
  },
);

const URL_WITH_ALL_PARTS = fc.webUrl({
  withQueryParameters: true,
  withFragments: true,
});
const NOT_IN_URIS = fc.constantFrom(
  ...' {}|\\^`<>"é\n',
  "%",
  "%4",
  "%zz",
  "${HOST}",
);

testProperty(
  "typeIssue() accepts every URL as RFC 3986 writes it, and none with a character that it does not have",
  fc.tuple(URL_WITH_ALL_PARTS, NOT_IN_URIS, fc.nat()),
  ([url, other, place]) => {
    assertEquals(
      typeIssue(url, { type: "url", tier: "public", values: undefined }),
      undefined,
      url,
    );
    const at = place % (url.length + 1);
    const changed = `${url.slice(0, at)}${other}${url.slice(at)}`;
    const isEscape = /%[0-9a-f]{2}/i.test(
      changed.slice(at, at + other.length + 2),
    );
    assert(
      isEscape ||
        typeIssue(changed, {
            type: "url",
            tier: "public",
            values: undefined,
          }) !== undefined,
      changed,
    );
  },
);

const JSON_NAME = fc.stringMatching(/^[A-Z][A-Z0-9_]{0,20}$/);
const PLAIN_TEXT = fc.string({ unit: "grapheme", minLength: 1 });

testProperty(
  "a default of a manifest becomes the variable's value",
  fc.dictionary(JSON_NAME, PLAIN_TEXT),
  async (defaults) => {
    const variables = Object.fromEntries(
      Object.entries(defaults).map((
        [name, value],
      ) => [name, { tier: "public", type: "string", default: value }]),
    );
    const manifest = JSON.stringify({ version: "0.1.0", variables });
    try {
      const snapshot = await buildSnapshot(snapshotInput({ manifest }));
      assertEquals(Object.fromEntries(snapshot.public), { ...defaults });
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error; // the name may be invalid
      for (const issue of error.issues) {
        assert(issue.startsWith("Cannot "), issue);
      }
    }
  },
);

/** On a clock whose timers never run. */
const clock = new FakeClock();
let gateway: Gateway | undefined;
const CURSOR_PIECES = [
  "0",
  "1700000000000",
  "-",
  "9".repeat(15),
  "9".repeat(40),
  "e",
  ".",
  " ",
  "%",
  "&",
  "=",
  "NaN",
  "０",
];

testProperty(
  "GET /rep/changes answers any cursor with a stream",
  fc.tuple(headerOf(CURSOR_PIECES), textOf(CURSOR_PIECES)),
  async ([header, query]) => {
    gateway ??= await createGateway({
      clock,
      hotReload: true,
      variables: { REP_PUBLIC_A: "1" },
    });
    clock.pass(CLIENT_READ_MS); // otherwise the second client of an unknown event would wait
    const url = `http://gateway.test/rep/changes?last_event_id=${
      encodeURIComponent(query.toWellFormed())
    }`;
    const headers: HeadersInit = header === ""
      ? {}
      : { "last-event-id": header };
    const response = await gateway.fetch(new Request(url, { headers }));
    assertEquals([response.status, response.headers.get("content-type")], [
      200,
      "text/event-stream",
    ]);
    const reader = response.body?.getReader();
    const { value } = await reader?.read() ?? {};
    assert(new TextDecoder().decode(value).startsWith("retry: "));
    await reader?.cancel();
  },
);

const ORIGIN_PIECES = [
  "https://",
  "http://",
  "app.example",
  ":443",
  ":8443",
  "/",
  "null",
  "*",
  "@",
  "[::1]",
  " ",
  "capacitor://",
];

testProperty(
  "an origin is permitted only if it is the gateway's own or a listed one",
  fc.tuple(
    textOf(ORIGIN_PIECES, 6),
    textOf(ORIGIN_PIECES, 6),
    fc.option(fc.constantFrom("same-origin", "cross-site")),
  ),
  ([listed, origin, secFetchSite]) => {
    const own = "https://own.example";
    const normalized = normalizeOrigin(listed);
    const allowed = normalized === undefined ? [] : [normalized];
    for (const it of allowed) assertEquals(normalizeOrigin(it), it);
    const context = { origin, secFetchSite, own, allowed };
    const isPermitted = originRejection(context) === undefined;
    const expected = allowed.length > 0
      ? allowed.includes(origin)
      : origin === own;
    assertEquals(isPermitted, expected, `${origin} with ${allowed}`);
    if (isPermitted) {
      assertEquals(
        corsHeaders(context)["access-control-allow-origin"],
        origin,
      );
    }
  },
);

testProperty(
  "normalizeOrigin() returns the origin of every web URL as it is",
  fc.webUrl(),
  (url) => {
    const { origin } = new URL(url);
    assertEquals(normalizeOrigin(origin), origin);
  },
);

const ADDRESS = fc.oneof(fc.ipV4(), fc.ipV6());
const FORWARDED_PIECES = [
  "10.0.0.1",
  "192.0.2.7",
  "::1",
  "[2001:db8::1]:80",
  ", ",
  ",",
  "unknown",
  ":",
  "https",
  "é",
  '"',
  ";",
];

testProperty(
  "X-Forwarded headers yield an address, and count only from a trusted proxy",
  fc.tuple(
    ADDRESS,
    headerOf(FORWARDED_PIECES),
    headerOf(FORWARDED_PIECES),
    headerOf(FORWARDED_PIECES),
    fc.boolean(),
  ),
  ([peer, forwardedFor, proto, host, isTrusted]) => {
    const headers = {
      "x-forwarded-for": forwardedFor,
      "x-forwarded-proto": proto,
      "x-forwarded-host": host,
    };
    const request = new Request("http://gateway.test/", { headers });
    const origin = "http://gateway.test";
    const client = resolveClient(request, {
      origin,
      peer,
      isTrusted: () => isTrusted,
    });
    assert(isIP(client.address) !== 0, client.address);
    const direct = resolveClient(new Request(`${origin}/`), {
      origin,
      peer,
      isTrusted: () => false,
    });
    if (!isTrusted) assertEquals(client, direct);
  },
);

testProperty(
  "trustRule() accepts addresses and CIDR blocks, which contain their own address",
  fc.oneof(
    textOf([
      "10.0.0.0",
      "/",
      "8",
      "129",
      "::",
      "fd00::",
      "%eth0",
      ".",
      "-1",
      " ",
    ], 6),
    fc.tuple(fc.ipV4(), fc.integer({ min: 1, max: 32 })).map((
      [address, bits],
    ) => `${address}/${bits}`),
    fc.tuple(fc.ipV6(), fc.integer({ min: 1, max: 128 })).map((
      [address, bits],
    ) => `${address}/${bits}`),
  ),
  (proxy) => {
    try {
      assert(trustRule([proxy])(proxy.split("/")[0] ?? ""), proxy);
    } catch (error) {
      assert(
        error instanceof RangeError &&
          error.message.startsWith("Cannot trust the proxy "),
        String(error),
      );
    }
  },
);

testProperty(
  "parseByteRange() returns a range within the representation",
  fc.tuple(
    textOf(
      ["bytes=", "bytes", "-", "0", "1", "99999999999999999999", ",", " "],
      8,
    ),
    fc.nat(1_000_000),
  ),
  ([header, size]) => {
    const range = parseByteRange(header, size);
    if (range === undefined || range === "unsatisfiable") return;
    assert(
      range.start >= 0 && range.start < range.end && range.end <= size,
      JSON.stringify(range),
    );
  },
);

const HTML_PIECES = [
  ..."<!doctype html>|<html>|<head>|</head>|<body>|</body>|<!--|-->|--!>|<script>|</script|>|<title>|</title>|<template>"
    .split("|"),
  ..."</template>|<style>|</style>|</HEAD >|<p a='|'|\"|<|/|=|</|<textarea>|</textarea>|<svg>|</svg>|<![CDATA[|]]>|\r\n"
    .split("|"),
  ..."<noscript>|</noscript>|<noframes>|<iframe>|<select>|<math>|<mi>|<desc>|<foreignObject>|<table>|<tr>|<col>|<frameset>"
    .split("|"),
  ..."<html a=b>|<meta>|</title>|</br>|</p>|<plaintext>|<!-->|<?|&amp;|\0|\uFEFF|\u00e9| "
    .split("|"),
];
const SCRIPT = '<script id="__rep__">{}</script>';

testProperty(
  "injectScript() inserts the script once and changes nothing else, however the document is divided",
  fc.tuple(textOf(HTML_PIECES), CUTS, CUTS),
  async ([text, cuts, otherCuts]) => {
    const html = text.toWellFormed();
    const bytes = new TextEncoder().encode(html);
    const inject = (at: readonly number[]) => {
      const body = injectScript(
        ReadableStream.from(chunksOf(bytes, at)),
        new TextEncoder().encode(SCRIPT),
      );
      return new Response(body).bytes();
    };
    const [page, same] = [await inject(cuts), await inject(otherCuts)];
    assertEquals(page, same);
    const place = new TextDecoder("utf-8", { ignoreBOM: true }).decode(page)
      .indexOf(SCRIPT);
    assert(place >= 0);
    assertEquals(
      new TextDecoder("utf-8", { ignoreBOM: true }).decode(page).replace(
        SCRIPT,
        "",
      ),
      html,
    );
  },
);

testProperty(
  "a browser finds the script in the head of any document, and everything else as it was",
  textOf(HTML_PIECES).map((text) => text.toWellFormed()),
  assertInserted,
);

testProperty(
  "escapeForScript() returns JSON with the same value that cannot end a script",
  fc.json(),
  (json) => {
    const escaped = escapeForScript(json);
    assertEquals(JSON.parse(escaped), JSON.parse(json));
    assert(!/[<\u007f-\uffff]/.test(escaped));
  },
);

const CHANGE = fc.record({
  id: fc.integer({ min: 1, max: 999_999_999_999_999 }),
  name: fc.string({ unit: "binary", maxLength: 20 }),
  value: fc.option(fc.string({ unit: "binary" }), { nil: undefined }),
});

testProperty(
  "a stream is parsed back to its events, by eventsource-parser and by the rules of the HTML standard",
  fc.tuple(fc.array(CHANGE, { maxLength: 8 }), CUTS),
  ([changes, cuts]) => {
    const frames = changes.flatMap((
      change,
    ) => [STREAM_FORMS.plain.heartbeat(change.id), eventFrame(change)]);
    const chunks = chunksOf(
      [
        STREAM_FORMS.plain.opening({
          retryMs: 2_000,
          comment: "connected",
          id: 1,
        }),
        ...frames,
      ]
        .join(""),
      cuts,
    );
    const messages: EventSourceMessage[] = [];
    const parser = createParser({
      onEvent: (message) => messages.push(message),
    });
    const events: EventSourceMessage[] = [];
    let id = "";
    const standard = new EventStreamParser({
      onEvent: (event, data) => events.push({ event, data, id }),
      onLastEventId: (it) => id = it,
      onRetry: (ms) => assertEquals(ms, 2_000),
    });
    for (const chunk of chunks) {
      parser.feed(chunk);
      standard.feed(chunk);
    }
    assertEquals(messages, events);
    const parsed = messages.map(({ id, data }) => ({
      id: Number(id),
      ...JSON.parse(data),
    }));
    const expected = changes.map(({ id, name, value }) => {
      return {
        id,
        key: name,
        tier: "public",
        ...(value === undefined ? {} : { value }),
      };
    });
    assertEquals(parsed, expected);
  },
);
