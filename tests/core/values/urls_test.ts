import { assertEquals } from "@std/assert";
import {
  hostAndPort,
  parseUpstream,
  redactCredentials,
  redactUrl,
} from "../../../src/core/values/urls.ts";

const URLS: Record<string, string> = {
  "http://127.0.0.1:3000/path": "http://127.0.0.1:3000/path",
  "127.0.0.1:3000": "127.0.0.1:3000",
  "http://[::1]:3000/": "http://[::1]:3000/",
  "fd00::/8": "fd00::/8",
  ":memory:": ":memory:",
  "http://user:CANARY@host/": "http://…@host/",
  "http://CANARY@host/": "http://…@host/",
  "http://user:CAN@CANARY@host/": "http://…@host/",
  "http://user:CAN/ARY?CANARY#CANARY@host/": "http://…@host/",
  "http://user:CANARY @ho st/": "http://…@ho st/",
  "http://me:CANARY@no host/?CANARY": "http://…@no host/?…",
  "user:CANARY@host": "…@host",
  "user:CAN=CANARY@host": "…@host",
  "host=db password=CAN@CANARY": "host=…",
  "http://host/a=b": "http://host/a=b",
  "postgres://user:CANARY@host:5432/database":
    "postgres://…@host:5432/database",
  "http://host/?token=CANARY": "http://host/?…",
  "http://host/#CANARY": "http://host/?…",
  "http://user:CANARY": "http://user:…",
  "http://user:123456CANARY/path": "http://user:…/path",
  "https://a.example,https://user:CANARY@b.example": "https://…@b.example",
};

for (const [url, redacted] of Object.entries(URLS)) {
  Deno.test(`redactUrl() formats ${url} as ${redacted}`, () =>
    assertEquals(redactUrl(url), redacted));
}

const TEXTS: Record<string, string> = {
  "expected postgres://USER[:PASSWORD]@HOST/DATABASE":
    "expected postgres://USER[:PASSWORD]@HOST/DATABASE",
  "expected postgres://USER:CANARY@HOST": "expected postgres://…@HOST",
  "error sending request for url (http://user:CANARY@127.0.0.1:1/x): refused":
    "error sending request for url (http://…@127.0.0.1:1/x): refused",
  "from 'https://CANARY@a' to \"postgres://u:CANARY@b/c\"":
    "from 'https://…@a' to \"postgres://…@b/c\"",
  "at https://jsr.io/@std/yaml/mod.ts:1:2 and file:///a@b":
    "at https://jsr.io/@std/yaml/mod.ts:1:2 and file:///a@b",
  "mail to help@example.com": "mail to help@example.com",
};

for (const [text, redacted] of Object.entries(TEXTS)) {
  Deno.test(`redactCredentials() formats ${text} as ${redacted}`, () => {
    assertEquals(redactCredentials(text), redacted);
  });
}

Deno.test("redactUrl() and redactCredentials() take linear time", () => {
  for (const piece of ["a", ":", "://", "/", "@", "a://b", "a:b@", "?", "1"]) {
    const started = performance.now();
    redactUrl(piece.repeat(100_000));
    redactCredentials(piece.repeat(100_000));
    assertEquals([piece, performance.now() - started < 60_000], [piece, true]);
  }
});

Deno.test("hostAndPort() puts IPv6 in brackets, once", () => {
  const hosts = ["127.0.0.1", "localhost", "::", "[::1]"];
  assertEquals(hosts.map((host) => hostAndPort(host, 80)), [
    "127.0.0.1:80",
    "localhost:80",
    "[::]:80",
    "[::1]:80",
  ]);
});

Deno.test("parseUpstream() returns an http: or https: URL with a host, a port and a path", () => {
  for (
    const upstream of [
      "http://up/",
      "https://up:8443/base/",
      new URL("http://[::1]:3000/"),
    ]
  ) {
    assertEquals(parseUpstream(upstream)?.href, String(upstream));
  }
});

Deno.test("parseUpstream() rejects anything else", () => {
  const rejected = [
    "nonsense",
    "",
    "127.0.0.1:3000",
    "localhost:3000",
    "http://",
    "ftp://up/",
    "ws://up/",
    "http://me:pw@up/",
    "http://me@up/",
    "http://up/?a",
    "http://up/#a",
  ];
  for (const upstream of rejected) {
    assertEquals([upstream, parseUpstream(upstream)], [upstream, undefined]);
  }
});
