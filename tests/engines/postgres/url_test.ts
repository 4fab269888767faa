import { assertEquals, assertThrows } from "@std/assert";
import {
  formatHosts,
  parsePostgresUrl,
} from "../../../src/engines/postgres/url.ts";

Deno.test("parsePostgresUrl() returns every part, decoded, and the defaults", () => {
  assertEquals(
    parsePostgresUrl("postgres://me:p%40ss%2Fw@db.example/my%20data"),
    {
      hosts: [{ hostname: "db.example", port: 5432 }],
      user: "me",
      password: "p@ss/w",
      passwordFile: undefined,
      database: "my data",
      schema: "rep_gateway",
      isEncrypted: true,
      caFile: undefined,
    },
  );
});

Deno.test("parsePostgresUrl() returns every parameter, and several hosts in their order", () => {
  const parameters =
    "schema=shop_2&password_file=/run/secrets/pg&sslmode=disable&sslrootcert=/etc/ca.crt";
  assertEquals(
    parsePostgresUrl(
      `postgresql://me@a.example:5433,[::1],10.0.0.1:1/db?${parameters}`,
    ),
    {
      hosts: [{ hostname: "a.example", port: 5433 }, {
        hostname: "::1",
        port: 5432,
      }, { hostname: "10.0.0.1", port: 1 }],
      user: "me",
      password: undefined,
      passwordFile: "/run/secrets/pg",
      database: "db",
      schema: "shop_2",
      isEncrypted: false,
      caFile: "/etc/ca.crt",
    },
  );
});

Deno.test("parsePostgresUrl() encrypts unless every host is a loopback address or sslmode disables it", () => {
  const cases: [hosts: string, query: string, isEncrypted: boolean][] = [
    ["localhost,127.0.0.1,[::1]", "", false],
    ["localhost,db.example", "", true],
    ["localhost.example", "", true],
    ["localhost", "?sslmode=verify-full", true],
    ["db.example", "?sslmode=disable", false],
  ];
  const results = cases.map(([hosts, query]) =>
    parsePostgresUrl(`postgres://me@${hosts}/db${query}`).isEncrypted
  );
  assertEquals(results, cases.map(([, , isEncrypted]) => isEncrypted));
});

const INVALID: Record<string, string> = {
  "postgres://db.example/db":
    '"postgres://db.example/db": expected postgres://USER[:PASSWORD]@HOST',
  "postgres://me:s3cret@db.example":
    '"postgres://…@db.example": expected postgres://USER',
  "postgres://me:s3/cret@db.example/db":
    '"postgres://…@db.example/db": expected postgres://USER',
  "postgres://me:s3@cret@db.example/db":
    '"postgres://…@db.example/db": expected postgres://USER',
  "postgres://me:s3%zzcret@db.example/db":
    "expected special characters to be percent-encoded",
  "postgres://me:s3cret@db.example:99999/db":
    'expected HOST or HOST:PORT, got "db.example:99999"',
  "postgres://me:s3cret@a.example,/db": 'expected HOST or HOST:PORT, got ""',
  "postgres://me:s3cret@db.example/db?schema=Shop": 'underscores, got "Shop"',
  "postgres://me:s3cret@db.example/db?schema=a;drop":
    'underscores, got "a;drop"',
  "postgres://me:s3cret@db.example/db?schema=pg_catalog":
    'underscores, got "pg_catalog"',
  "postgres://me:s3cret@db.example/db?sslmode=require":
    'expected sslmode to be verify-full or disable, got "require"',
  "postgres://me@db.example/db?password=s3cret":
    'sslmode, sslrootcert, got "password"',
};

for (const [url, message] of Object.entries(INVALID)) {
  Deno.test(`parsePostgresUrl() rejects ${url} without its credentials`, () => {
    const error = assertThrows(() => parsePostgresUrl(url), TypeError, message);
    assertEquals(error.message.includes("cret"), false);
  });
}

Deno.test("formatHosts() returns the hosts without credentials", () => {
  assertEquals(
    formatHosts(parsePostgresUrl("postgres://me:s3cret@a.example,[::1]:1/db")),
    "a.example:5432,[::1]:1",
  );
});
