import { assertEquals } from "@std/assert";
import {
  parseCommandLine,
  readOptions,
} from "../../../src/cli/options/read_options.ts";
import { checkPermissions } from "../../../src/cli/start/check_start.ts";

/** Checks the permissions for a command line. */
function issuesOf(...args: string[]): Promise<string[]> {
  return checkPermissions(
    readOptions({
      flags: parseCommandLine(args).flags,
      environment: {},
      manifest: {},
    }),
  );
}

/** Options that require a permission, and the message if it is missing. */
const CASES: readonly (readonly [args: string[], issue: string])[] = [
  [
    ["--static-dir=dist"],
    'Cannot read --static-dir "dist": expected --allow-read=dist',
  ],
  [
    ["--mode=embedded"],
    'Cannot read --static-dir "/usr/share/nginx/html": expected --allow-read=/usr/share/nginx/html',
  ],
  [
    ["--manifest=rep.yaml"],
    'Cannot read --manifest "rep.yaml": expected --allow-read=rep.yaml',
  ],
  [
    ["--env-file=app.env"],
    'Cannot read --env-file "app.env": expected --allow-read=app.env',
  ],
  [
    ["--watch-path=/config", "--hot-reload-mode=file_watch"],
    'Cannot read --watch-path "/config": expected --allow-read=/config',
  ],
  [
    ["--kv=kv.sqlite3"],
    'Cannot open --kv "kv.sqlite3": expected --allow-read=kv.sqlite3',
  ],
  [
    ["--kv=https://kv.example"],
    'Cannot open --kv "https://kv.example": expected --allow-env=DENO_KV_ACCESS_TOKEN',
  ],
  [
    ["--kv=https://me:s3cret@kv.example"],
    'Cannot open --kv "https://…@kv.example": expected --allow-env=DENO_KV_ACCESS_TOKEN',
  ],
  [
    ["--kv=postgres://me:s3cret@db.example/db"],
    'Cannot open --kv "postgres://…@db.example/db": expected --allow-env',
  ],
  [
    ["--upstream=up.example"],
    'Cannot proxy to --upstream "http://up.example/": expected --allow-net=up.example:80',
  ],
  [
    ["--upstream=https://up.example/base"],
    'Cannot proxy to --upstream "https://up.example/base": expected --allow-net=up.example:443',
  ],
  [
    ["--upstream=[::1]:3000"],
    'Cannot proxy to --upstream "http://[::1]:3000/": expected --allow-net=[::1]:3000',
  ],
];

for (const [args, issue] of CASES) {
  Deno.test(
    `checkPermissions() reports the missing permission for ${args.join(" ")}`,
    { permissions: {} },
    async () => {
      assertEquals(await issuesOf(...args), [issue]);
    },
  );

  Deno.test(`checkPermissions() accepts ${args.join(" ")} with all permissions`, async () => {
    assertEquals(await issuesOf(...args), []);
  });
}

Deno.test(
  "checkPermissions() requires no permission for defaults and the store in memory",
  { permissions: {} },
  async () => {
    assertEquals([
      await issuesOf(),
      await issuesOf("--kv=:memory:"),
      await issuesOf("--watch-path=/config"),
    ], [
      [],
      [],
      [],
    ]);
  },
);

Deno.test("checkPermissions() reports all issues at once", {
  permissions: { read: ["key.pem"] },
}, async () => {
  const args = [
    "--static-dir=dist",
    "--tls-cert=cert.pem",
    "--tls-key=key.pem",
    "--env-file=app.env",
  ];
  assertEquals(await issuesOf(...args), [
    'Cannot read --static-dir "dist": expected --allow-read=dist',
    'Cannot read --env-file "app.env": expected --allow-read=app.env',
    'Cannot read --tls-cert "cert.pem": expected --allow-read=cert.pem',
  ]);
  assertEquals(await issuesOf("--tls-cert=key.pem", "--tls-key=cert.pem"), [
    'Cannot read --tls-key "cert.pem": expected --allow-read=cert.pem',
  ]);
});

Deno.test("checkPermissions() requires to write a database", {
  permissions: { read: ["kv.sqlite3"] },
}, async () => {
  assertEquals(await issuesOf("--kv=kv.sqlite3"), [
    'Cannot open --kv "kv.sqlite3": expected --allow-write=kv.sqlite3',
  ]);
});

Deno.test(
  "checkPermissions() requires the network for a database server",
  { permissions: { env: ["DENO_KV_ACCESS_TOKEN"], net: ["kv.example:443"] } },
  async () => {
    assertEquals([
      await issuesOf("--kv=https://kv.example"),
      await issuesOf("--kv=http://kv.example:4512"),
    ], [[], [
      'Cannot open --kv "http://kv.example:4512": expected --allow-net=kv.example:4512',
    ]]);
  },
);

Deno.test(
  "checkPermissions() requires the network for every PostgreSQL server, and the files of its URL",
  { permissions: { env: true, net: ["a.example:5432", "[::1]:1"] } },
  async () => {
    const issues = [
      "a.example,[::1]:1/db",
      "a.example,b.example:1/db",
      "a.example/db?password_file=pw",
    ];
    assertEquals(
      await Promise.all(
        issues.map((rest) => issuesOf(`--kv=postgres://me:s3cret@${rest}`)),
      ),
      [
        [],
        ['Cannot open --kv "postgres://…@a.example,b.example:1/db": expected --allow-net=b.example:1'],
        ['Cannot open --kv "postgres://…@a.example/db?…": expected --allow-read=pw'],
      ],
    );
  },
);
