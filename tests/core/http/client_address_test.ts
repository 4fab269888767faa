import {
  createProxyWarning,
  peerAddress,
  resolveClient,
  trustRule,
} from "../../../src/core/http/client_address.ts";
import {
  type Log,
  type LogFields,
  silentLog,
} from "../../../src/core/observe/log.ts";
import { setUp } from "../../_gateway.ts";
import { assertEquals, assertThrows } from "@std/assert";

/** The trusted proxies: load balancers such as 10.1.1.1, a single address, and a service mesh. */
const PROXIES = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"];

interface RequestFields {
  peer?: string;
  url?: string;
  headers?: HeadersInit;
  proxies?: readonly string[];
}

function client(
  {
    peer = "10.1.1.1",
    url = "http://gateway.test/",
    headers = {},
    proxies = PROXIES,
  }: RequestFields,
) {
  const { protocol, host } = new URL(url);
  const connection = {
    origin: `${protocol}//${host}`,
    peer: peerAddress({ transport: "tcp", hostname: peer }),
    isTrusted: trustRule(proxies),
  };
  return resolveClient(new Request(url, { headers }), connection);
}

Deno.test("trustRule() trusts no address without proxies", () => {
  const isTrusted = trustRule([]);
  assertEquals(
    ["127.0.0.1", "::1", "10.0.0.1", "unix", "unknown", ""].filter(isTrusted),
    [],
  );
});

Deno.test("trustRule() throws for anything but an address or a CIDR block", () => {
  const names = "localhost proxy.example.com * 10.0.0 10.0.0.1:80 [::1]";
  const blocks =
    "10.0.0.0/33 10.0.0.0/a ::/129 fe80::%eth0/10 /8 10.0.0.0-10.0.0.9";
  for (const proxy of ["", " 10.0.0.1", ...`${names} ${blocks}`.split(" ")]) {
    assertThrows(
      () => trustRule(["10.0.0.1", proxy]),
      RangeError,
      `Cannot trust the proxy "${proxy}": expected an IP address or a CIDR block such as 10.0.0.0/8`,
    );
  }
});

Deno.test("resolveClient() ignores the headers of an untrusted peer", () => {
  const headers = {
    "x-forwarded-for": "203.0.113.9",
    "x-forwarded-host": "app.example.com",
    "x-forwarded-proto": "https",
    "x-real-ip": "203.0.113.9",
    "forwarded": "for=203.0.113.9;host=app.example.com;proto=https",
  };
  const expected = {
    address: "198.51.100.1",
    clientKey: "198.51.100.1",
    origin: "http://gateway.test",
  };
  assertEquals(client({ peer: "198.51.100.1", headers }), expected);
  assertEquals(
    client({ peer: "198.51.100.1", headers, proxies: [] }),
    expected,
  );
});

Deno.test("resolveClient() uses the headers of a trusted peer", () => {
  const headers = {
    "x-forwarded-for": "203.0.113.9",
    "x-forwarded-host": "app.example.com",
    "x-forwarded-proto": "https",
  };
  const expected = {
    address: "203.0.113.9",
    clientKey: "203.0.113.9",
    origin: "https://app.example.com",
  };
  assertEquals(client({ headers }), expected);
  assertEquals(client({ headers, peer: "::ffff:10.1.1.1" }), expected);
});

/** Values of `X-Forwarded-For` from the trusted 10.1.1.1, and the address of the client. */
const CHAINS: readonly [chain: string | undefined, address: string][] = [
  // no hop, one hop
  [undefined, "10.1.1.1"],
  ["", "10.1.1.1"],
  [",", "10.1.1.1"],
  ["203.0.113.9", "203.0.113.9"],
  ["  203.0.113.9\t", "203.0.113.9"],
  // entries to the left of the first untrusted address are ignored
  ["1.1.1.1, 203.0.113.9", "203.0.113.9"],
  ["10.9.9.9, 203.0.113.9", "203.0.113.9"],
  ["203.0.113.9, 10.9.9.9", "203.0.113.9"],
  ["203.0.113.9,10.9.9.9,192.0.2.7,fd00::7", "203.0.113.9"],
  ["1.1.1.1, 203.0.113.9, 10.9.9.9", "203.0.113.9"],
  // only trusted proxies: the leftmost one
  ["10.9.9.9", "10.9.9.9"],
  ["10.3.3.3, 10.2.2.2", "10.3.3.3"],
  // an invalid entry ends the list
  ["unknown", "10.1.1.1"],
  ["203.0.113.9, unknown", "10.1.1.1"],
  ["203.0.113.9, unknown, 10.2.2.2", "10.2.2.2"],
  ["203.0.113.9, , 10.2.2.2", "10.2.2.2"],
  ["203.0.113.9,", "10.1.1.1"],
  ["203.0.113.9 10.2.2.2", "10.1.1.1"],
  ["_hidden", "10.1.1.1"],
  ["010.0.0.1", "10.1.1.1"],
  ["0x7f000001", "10.1.1.1"],
  ["203.0.113", "10.1.1.1"],
  ["203.0.113.256", "10.1.1.1"],
  ["203.0.113.9/32", "10.1.1.1"],
  ['"203.0.113.9"', "10.1.1.1"],
  ["for=203.0.113.9", "10.1.1.1"],
  ["<script>", "10.1.1.1"],
  ["-".repeat(10_000), "10.1.1.1"],
  // ports and brackets
  ["203.0.113.9:4711", "203.0.113.9"],
  ["203.0.113.9:", "10.1.1.1"],
  ["[2001:db8::9]", "2001:db8::9"],
  ["[2001:db8::9]:4711", "2001:db8::9"],
  ["[2001:db8::9", "10.1.1.1"],
  ["[203.0.113.9]:4711", "203.0.113.9"],
  ["1.1.1.1, 203.0.113.9:4711, 10.2.2.2:80", "203.0.113.9"],
  ["1.1.1.1, [fd00::1]:80", "1.1.1.1"],
  // IPv6 and IPv4-mapped IPv6
  ["2001:db8::9", "2001:db8::9"],
  ["2001:db8::9, ::ffff:10.2.2.2", "2001:db8::9"],
  ["::ffff:203.0.113.9", "203.0.113.9"],
  ["::FFFF:203.0.113.9", "203.0.113.9"],
  ["::ffff:cb00:7109", "203.0.113.9"],
  ["0:0:0:0:0:ffff:203.0.113.9", "203.0.113.9"],
  ["[::ffff:203.0.113.9]:4711", "203.0.113.9"],
  ["1.1.1.1, ::ffff:a02:202", "1.1.1.1"],
  ["::203.0.113.9", "::203.0.113.9"],
  ["fe80::1%eth0", "fe80::1%eth0"],
  // many hops
  [`1.1.1.1, ${Array(900).fill("10.2.2.2").join(", ")}`, "1.1.1.1"],
  [`${Array(900).fill("1.1.1.1").join(", ")}, 203.0.113.9`, "203.0.113.9"],
];

for (const [chain, address] of CHAINS) {
  const value = chain === undefined
    ? "none"
    : JSON.stringify(chain.slice(0, 50));
  Deno.test(`resolveClient() reads X-Forwarded-For ${value} of ${chain?.length ?? 0} characters as ${address}`, () => {
    assertEquals(
      client({
        headers: chain === undefined ? {} : { "x-forwarded-for": chain },
      }).address,
      address,
    );
  });
}

Deno.test("resolveClient() joins several X-Forwarded-For headers in order", () => {
  const headers: [string, string][] = [["x-forwarded-for", "1.1.1.1"], [
    "x-forwarded-for",
    "203.0.113.9, 10.2.2.2",
  ]];
  assertEquals(client({ headers }).address, "203.0.113.9");
});

/** Addresses of peers and their client keys. */
const RATE_KEYS: Record<string, string> = {
  "203.0.113.9": "203.0.113.9",
  "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::/64",
  "2001:db8:1:2::": "2001:db8:1:2::/64",
  "2001:0DB8:0001:0002:ffff:ffff:ffff:ffff": "2001:db8:1:2::/64",
  "2001:db8:1:3::": "2001:db8:1:3::/64",
  "2001:db8::1": "2001:db8:0:0::/64",
  "2001:db8::1:0:0:1": "2001:db8:0:0::/64",
  "2001:db8:0:1::": "2001:db8:0:1::/64",
  "::1": "0:0:0:0::/64",
  "::": "0:0:0:0::/64",
  "1::": "1:0:0:0::/64",
  "fe80::1%eth0": "fe80:0:0:0::/64",
  "::ffff:203.0.113.9": "203.0.113.9",
  "::ffff:cb00:7109": "203.0.113.9",
  "64:ff9b::203.0.113.9": "64:ff9b:0:0::/64",
  "unix": "unix",
  "unknown": "unknown",
};

for (const [address, clientKey] of Object.entries(RATE_KEYS)) {
  Deno.test(`resolveClient() returns the client key ${clientKey} for ${address}`, () => {
    assertEquals(client({ peer: address, proxies: [] }).clientKey, clientKey);
  });
}

const APP = "https://app.example.com";

/** `X-Forwarded-Proto` and `X-Forwarded-Host` from a trusted proxy, and the origin. */
const ORIGINS: readonly [
  proto: string | undefined,
  host: string | undefined,
  origin: string,
][] = [
  [undefined, undefined, "http://gateway.test:8080"],
  ["https", undefined, "https://gateway.test:8080"],
  [undefined, "app.example.com", "http://app.example.com"],
  ["https", "app.example.com", APP],
  ["HTTPS", "App.Example.COM", APP],
  ["https", "app.example.com:443", APP],
  ["http", "app.example.com:443", "http://app.example.com:443"],
  ["https", "app.example.com:8443", "https://app.example.com:8443"],
  ["https", "[2001:db8::1]:8443", "https://[2001:db8::1]:8443"],
  [" https ", " app.example.com ", APP],
  // earlier items of a list may be the client's
  ["http, https", "evil.example, app.example.com", APP],
  ["", "", "http://gateway.test:8080"],
  ["https,", "app.example.com,", "http://gateway.test:8080"],
  // invalid values are ignored, and never yield the opaque origin, which every sandboxed frame has
  ["https", "a b", "http://gateway.test:8080"],
  ["https", "app.example.com:99999", "http://gateway.test:8080"],
  ["capacitor", "localhost", "http://gateway.test:8080"],
  ["file", "app.example.com", "http://gateway.test:8080"],
  ["javascript", "app.example.com", "http://gateway.test:8080"],
  ["://", "app.example.com", "http://gateway.test:8080"],
];

for (const [proto, host, origin] of ORIGINS) {
  const headers = `scheme ${JSON.stringify(proto ?? "none")} and host ${
    JSON.stringify(host ?? "none")
  }`;
  Deno.test(`resolveClient() returns the origin ${origin} for ${headers}`, () => {
    const headers = new Headers();
    if (proto !== undefined) headers.set("x-forwarded-proto", proto);
    if (host !== undefined) headers.set("x-forwarded-host", host);
    assertEquals(
      client({ url: "http://gateway.test:8080/rep/health", headers }).origin,
      origin,
    );
  });
}

/** The headers of a trusted proxy besides `X-Forwarded-Proto: https`, and the origin. */
const PORTS: readonly [headers: Record<string, string>, origin: string][] = [
  [{ port: "8443" }, `${APP}:8443`],
  [{ port: "443" }, APP],
  [{ port: " 08443" }, APP],
  [{ port: "80" }, APP],
  [{ port: "443, 8443 " }, `${APP}:8443`],
  [{ port: "8443, 443" }, APP],
  [{ port: "8443", host: "other.example" }, "https://other.example:8443"],
  [{ port: "8443", host: "[2001:db8::1]" }, "https://[2001:db8::1]:8443"],
  [{ port: "8443", host: "[::1]:9443" }, "https://[::1]:9443"],
  [{ port: "8443", host: "other.example:443" }, "https://other.example"],
  [{ port: "8443", sent: "app.example.com:443" }, APP],
  [{ port: "8443", sent: "app.example.com:9443" }, APP],
  [{ port: "443", proto: "http" }, "http://app.example.com"],
  [{ port: "80", proto: "http" }, "http://app.example.com"],
  [{ port: "8080", proto: "HTTP" }, "http://app.example.com:8080"],
  [{ port: "80", proto: "HTTPS" }, APP],
  ...["", "0", "-1", "65536", "x", "8443x", "0x50", "8443.5", "8443;"]
    .map((port): [Record<string, string>, string] => [{ port }, APP]),
];

for (const [{ proto = "https", host, port = "", sent }, origin] of PORTS) {
  const name = JSON.stringify({ proto, host, port, sent });
  Deno.test(`resolveClient() returns the origin ${origin} for ${name}`, () => {
    const headers = new Headers({ "x-forwarded-proto": proto });
    headers.set("x-forwarded-port", port);
    if (host !== undefined) headers.set("x-forwarded-host", host);
    if (sent !== undefined) headers.set("host", sent);
    const url = "http://app.example.com/rep/health";
    assertEquals(client({ url, headers }).origin, origin);
  });
}

Deno.test("resolveClient() ignores the port of a peer that is not trusted, and Forwarded of all", () => {
  const url = "http://app.example.com/";
  const forwarded = "proto=https;host=evil.example;for=203.0.113.77";
  const headers = new Headers({ forwarded, "x-forwarded-port": "8080" });
  assertEquals(
    client({ url, headers, peer: "203.0.113.9" }).origin,
    "http://app.example.com",
  );
  assertEquals(
    client({ url, headers: new Headers({ forwarded }) }).origin,
    "http://app.example.com",
  );
});

Deno.test("resolveClient() does not return the opaque origin for a Unix socket", () => {
  const result = client({
    peer: "unix",
    url: "http+unix://app.example.com/rep/session-key",
  });
  assertEquals(result, {
    address: "unix",
    clientKey: "unix",
    origin: "http+unix://app.example.com",
  });
});

Deno.test('peerAddress() returns the IP address of a peer, IPv4 in its own form, or "unix"', () => {
  const peers: Deno.Addr[] = [
    { transport: "tcp", hostname: "203.0.113.9", port: 4711 },
    { transport: "tcp", hostname: "::ffff:203.0.113.9", port: 4711 },
    { transport: "tcp", hostname: "2001:db8::9", port: 4711 },
    { transport: "unix", path: "/run/gateway.sock" },
  ];
  assertEquals(peers.map(peerAddress), [
    "203.0.113.9",
    "203.0.113.9",
    "2001:db8::9",
    "unix",
  ]);
});

/** Peers as a socket for both families reports them, trusted proxies, and who the log says that the client is. */
const MAPPED: readonly [peer: string, proxy: string, client: string][] = [
  ["::ffff:192.0.2.1", "198.51.100.1", "192.0.2.1"],
  ["::ffff:10.1.1.1", "10.0.0.0/8", "203.0.113.9"],
  ["::ffff:10.1.1.1", "::ffff:10.0.0.0/104", "203.0.113.9"],
  ["10.1.1.1", "::ffff:10.1.1.1", "10.0.0.1"],
];

for (const [hostname, proxy, client] of MAPPED) {
  Deno.test(`the log never has IPv4-mapped addresses: ${hostname} with the proxy ${proxy}`, async () => {
    const variables = { REP_SENSITIVE_A: "1" };
    await using test = await setUp(variables, {
      accessLog: true,
      trustedProxies: [proxy],
    });
    const forwarded = "x-forwarded-for";
    const request = new Request("http://gateway.test/rep/session-key", {
      headers: { [forwarded]: "::FFFF:cb00:7109, ::ffff:10.0.0.1" },
    });
    const info = { remoteAddr: { transport: "tcp", hostname } };
    const { status } = await test.gateway.fetch(request, info);
    const [issued] = test.logged("rep.session_key.issued");
    const [access] = test.logged("rep.request");
    const ips = [issued?.["client_ip"], access?.["client_ip"]];
    assertEquals([status, ...ips], [200, client, client]);
    assertEquals(JSON.stringify(test.lines).includes("::ffff"), false);
  });
}

function collectWarnings() {
  const warnings: [event: string, fields: LogFields | undefined][] = [];
  const log: Log = {
    ...silentLog,
    warn: (event, fields) => warnings.push([event, fields]),
  };
  return { warnings, log };
}

const FORWARDED = new Request("http://gateway.test/", {
  headers: { "x-forwarded-for": "203.0.113.9" },
});

Deno.test("createProxyWarning() warns once of X-Forwarded-For from a peer that is not a trusted proxy", () => {
  const { warnings, log } = collectWarnings();
  const check = createProxyWarning({
    isTrusted: trustRule(["10.0.0.0/8"]),
    log,
  });
  check(new Request("http://gateway.test/"), "192.0.2.1");
  check(FORWARDED, "10.1.1.1");
  check(FORWARDED, "::ffff:10.1.1.1");
  for (
    const [peer, own] of [
      ["192.0.2.1", "192.0.2.1"],
      ["192.0.2.1", "::ffff:192.0.2.1"],
      ["2001:db8::1", "2001:db8::1"],
    ] as const
  ) {
    const headers = { "x-forwarded-for": own };
    check(new Request("http://gateway.test/", { headers }), peer); // of Next.js, without a proxy
  }
  assertEquals(warnings, []);
  check(FORWARDED, "192.0.2.1");
  check(FORWARDED, "192.0.2.2");
  const detail =
    "X-Forwarded-For is ignored, and all clients of this peer share one rate limit; " +
    "if it is your proxy, add it to the trusted proxies";
  assertEquals(warnings, [["rep.proxy.untrusted", {
    peer: "192.0.2.1",
    detail,
  }]]);
});
