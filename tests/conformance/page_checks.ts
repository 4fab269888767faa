import {
  type Check,
  expect,
  expectEqual,
  PUBLIC,
  SENSITIVE,
  STANDARD,
} from "./check.ts";
import type { Launcher, Setup } from "./launcher.ts";
import { decrypt, isInserted, NONCE_BYTES, sriHash } from "./page.ts";
import type { Subject } from "./subject.ts";

/** Documents with `{rep}` where the element has to be. */
const BEFORE_HEAD_END = {
  "a head":
    "<!doctype html><html><head><title>t</title>{rep}</head><body>x</body></html>",
  "odd bytes":
    `<!doctype html>\r\n<html>\n\n<head>\t<meta charset=utf-8><title>ü&amp;–</title>{rep}</head>\r\n<body ></body>\n`,
};
const AS_HTML_PARSES = {
  "upper case":
    "<!DOCTYPE HTML><HTML><HEAD><TITLE>t</TITLE>{rep}</HEAD><BODY>x</BODY></HTML>",
  "a comment":
    "<!doctype html><html><head><!-- </head> --><title>t</title>{rep}</head><body>x</body></html>",
  "a script":
    `<html><head><script>const end = "</head>";</script><title>t</title>{rep}</head><body>x</body></html>`,
};
const WITHOUT_HEAD_END = {
  "no end": `<html><head lang="en">{rep}<title>t</title><body>x</body></html>`,
  "no head": "{rep}<p>x</p>",
};

const PAGES: Setup = {
  variables: { REP_PUBLIC_NAME: "value", REP_SENSITIVE_TOKEN: "secret" },
  site: {
    "index.html": "<head></head>",
    ...Object.fromEntries(
      Object.entries({
        ...BEFORE_HEAD_END,
        ...AS_HTML_PARSES,
        ...WITHOUT_HEAD_END,
      })
        .map(([name, text]) => [fileOf(name), text.replace("{rep}", "")]),
    ),
  },
};

/** What §8.1 requires of `_meta`. */
const META: Readonly<Record<string, RegExp>> = {
  version: /^\d+\.\d+\.\d+$/,
  injected_at: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/,
  integrity: /^hmac-sha256:[A-Za-z0-9+/]{43}=$/,
  key_endpoint: /^\//,
  hot_reload: /^\//,
  ttl: /^\d+$/,
};

/** §4.1, §4.3 and §8: the page and what is in it. */
export const PAGE_CHECKS: readonly Check[] = [
  {
    id: "4.3-head",
    run: (launcher) => checkInsertion(launcher, BEFORE_HEAD_END),
  },
  {
    id: "4.3-html",
    run: (launcher) => checkInsertion(launcher, AS_HTML_PARSES),
  },
  {
    id: "4.3-else",
    run: (launcher) => checkInsertion(launcher, WITHOUT_HEAD_END),
  },
  { id: "4.3-element", run: checkElement },
  { id: "4.1-files", run: checkFiles },
  { id: "8.2", run: checkEncryption },
  { id: "8.3", run: checkToken },
  { id: "8.3-blob", run: checkTokenOfBlob },
  { id: "8.1", run: checkSchema },
  { id: "4.3-cache", run: checkNoStoredPage },
  { id: "8.2-restart", run: checkKeyAfterRestart },
  { id: "4.1-proxy", run: (launcher) => withUpstream(launcher, checkProxy) },
  {
    id: "4.3-all",
    run: (launcher) =>
      withUpstream(launcher, async (subject) => {
        await subject.page("/", {
          headers: { "sec-fetch-dest": "empty", "sec-fetch-mode": "cors" },
        });
      }),
  },
];

function fileOf(name: string): string {
  return `${name.replaceAll(" ", "-")}.html`;
}

async function checkInsertion(
  launcher: Launcher,
  documents: Readonly<Record<string, string>>,
): Promise<void> {
  const subject = await launcher.start(PAGES);
  const wrong: string[] = [];
  for (const [name, marked] of Object.entries(documents)) {
    const { around } = await subject.page(`/${fileOf(name)}`);
    if (!isInserted(around, marked)) {
      wrong.push(
        `${name} (got ${JSON.stringify(around[0].slice(-40))} before it)`,
      );
    }
  }
  expect(
    wrong.length === 0,
    `expected the element in its place in a page with ${wrong.join(", ")}`,
  );
}

async function checkElement(launcher: Launcher): Promise<void> {
  const { attributes, json, payload } = await (await launcher.start(STANDARD))
    .page("/");
  expectEqual("type", attributes.get("type"), "application/json");
  const version = attributes.get("data-rep-version");
  expect(
    /^\d+\.\d+\.\d+$/.test(version ?? ""),
    `expected three numbers in data-rep-version, got ${version}`,
  );
  expectEqual(
    "data-rep-integrity",
    attributes.get("data-rep-integrity"),
    await sriHash(json),
  );
  expectEqual("a value with markup", payload.public.MARKUP, PUBLIC.MARKUP);
}

async function checkSchema(launcher: Launcher): Promise<void> {
  const { payload } = await (await launcher.start(STANDARD)).page("/");
  expectEqual("the fields", Object.keys(payload).sort(), [
    "_meta",
    "public",
    "sensitive",
  ]);
  const wrong = Object.entries(META).find(([name, pattern]) =>
    !pattern.test(String(payload._meta[name]))
  );
  expect(
    wrong === undefined,
    `expected ${wrong?.[0]} as ${wrong?.[1]}, got ${
      payload._meta[wrong?.[0] ?? ""]
    }`,
  );
  expectEqual("the type of ttl", typeof payload._meta.ttl, "number");
  await checkUnusedFeatures(launcher);
}

async function checkUnusedFeatures(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({
    variables: { REP_PUBLIC_NAME: "value" },
  });
  const { payload } = await subject.page("/");
  const names = [...Object.keys(payload), ...Object.keys(payload._meta)];
  const present = ["sensitive", "key_endpoint", "hot_reload"].filter((name) =>
    names.includes(name)
  );
  expectEqual("fields of unused features", present, []);
  const type =
    (await subject.ask("/rep/changes")).headers.get("content-type") ?? "";
  expect(
    !type.startsWith("text/event-stream"),
    "expected no stream without hot reload",
  );
}

async function checkFiles(launcher: Launcher): Promise<void> {
  const subject = await launcher.start(STANDARD);
  const head = () => rawHead(launcher.target.url, "/app.js", "gzip");
  expect(
    /^(etag|last-modified|cache-control):/mi.test(await head()),
    "expected a header for caches with a file",
  );
  // The first response need not be: a gateway may compress a file meanwhile.
  await subject.eventually(
    "a file compressed with gzip",
    async () => /^content-encoding: *gzip/mi.test(await head()),
  );
}

/** Returns the head of a response as it is sent: `fetch()` decodes the body and removes the header that says so. */
async function rawHead(
  url: string,
  path: string,
  acceptEncoding: string,
): Promise<string> {
  const { hostname, port, host } = new URL(url);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const lines = [
    `GET ${path} HTTP/1.1`,
    `Host: ${host}`,
    `Accept-Encoding: ${acceptEncoding}`,
    "Connection: close",
  ];
  await connection.write(
    new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`),
  );
  const bytes = await new Response(connection.readable).bytes();
  const [head = ""] = new TextDecoder("latin1").decode(bytes).split("\r\n\r\n");
  return head;
}

async function checkEncryption(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({ ...STANDARD });
  const page = await subject.page("/");
  const values = await decrypt(page.payload, await subject.key(page)) as Record<
    string,
    string
  >;
  expectEqual(
    "the SENSITIVE values",
    Object.entries(values).sort(),
    Object.entries(SENSITIVE).sort(),
  );
  const next = await pageAfter(
    launcher,
    subject,
    "REP_PUBLIC_LIVE=second\nREP_PUBLIC_GONE=here\n",
  );
  const nonces = [page, next].map(({ payload }) =>
    atob(payload.sensitive ?? "").slice(0, NONCE_BYTES)
  );
  expect(nonces[0] !== nonces[1], "expected another nonce for another page");
}

async function checkToken(launcher: Launcher): Promise<void> {
  const subject = await launcher.start({ ...STANDARD });
  const { payload } = await subject.page("/");
  const next = await pageAfter(
    launcher,
    subject,
    "REP_PUBLIC_LIVE=second\nREP_PUBLIC_GONE=here\n",
  );
  expect(
    payload._meta.integrity !== next.payload._meta.integrity,
    "expected another token for another PUBLIC value",
  );
}

async function checkTokenOfBlob(launcher: Launcher): Promise<void> {
  const { variables, ...setup } = STANDARD;
  const { REP_SENSITIVE_TOKEN: _, ...others } = variables!;
  const file = (token: string) =>
    `${STANDARD.envFile}REP_SENSITIVE_TOKEN=${token}\n`;
  const subject = await launcher.start({
    ...setup,
    variables: others,
    envFile: file("one"),
  });
  const { payload } = await subject.page("/");
  const next = await pageAfter(launcher, subject, file("two"));
  const isOther = payload._meta.integrity !== next.payload._meta.integrity;
  expect(isOther, "expected another token for another SENSITIVE value");
}

/** Changes the env file, and returns the page as soon as it is another. */
async function pageAfter(
  launcher: Launcher,
  subject: Subject,
  envFile: string,
): ReturnType<Subject["page"]> {
  const before = (await subject.page("/")).payload.sensitive;
  await launcher.writeEnvFile(envFile);
  subject.signal("SIGHUP");
  let page = await subject.page("/");
  await subject.eventually("another page after SIGHUP", async () => {
    page = await subject.page("/");
    return page.payload.sensitive !== before;
  });
  return page;
}

/** The values of a page may be encrypted with a key that a restart has replaced: that is the reason of the clause. */
async function checkNoStoredPage(launcher: Launcher): Promise<void> {
  const { headers } = await (await launcher.start({ ...PAGES })).ask("/");
  const [tag, date] = [headers.get("etag"), headers.get("last-modified")];
  const subject = await launcher.restart();
  const { status } = await subject.ask("/", {
    headers: {
      ...tag && { "if-none-match": tag },
      ...date && { "if-modified-since": date },
    },
  });
  expect(
    status === 200,
    `expected the new page instead of a stored one after a restart, got ${status}`,
  );
}

async function checkKeyAfterRestart(launcher: Launcher): Promise<void> {
  const first = await launcher.start({ ...PAGES });
  const key = await first.key(await first.page("/"));
  const second = await launcher.restart();
  expect(
    key !== await second.key(await second.page("/")),
    "expected another key after a restart",
  );
}

const PAGE =
  "<!doctype html><html><head><title>t</title>{rep}</head><body>upstream</body></html>";
const DATA = `{"html":"<head></head>"}\n`;

/** Answers `/` and what does not exist with HTML, and `/data.json` with JSON. */
function answerAsUpstream({ url }: Request): Response {
  const { pathname } = new URL(url);
  if (pathname === "/data.json") {
    return new Response(DATA, {
      headers: { "content-type": "application/json" },
    });
  }
  const headers = { "content-type": "text/html; charset=utf-8" };
  return new Response(PAGE.replace("{rep}", ""), {
    status: pathname === "/" ? 200 : 404,
    headers,
  });
}

async function withUpstream(
  launcher: Launcher,
  ask: (subject: Subject) => Promise<void>,
): Promise<void> {
  await using upstream = Deno.serve({
    hostname: "127.0.0.1",
    port: 0,
    onListen() {},
  }, answerAsUpstream);
  const options = {
    "mode": "proxy",
    "static-dir": "",
    "upstream": `127.0.0.1:${upstream.addr.port}`,
  };
  await ask(
    await launcher.start({ variables: { REP_PUBLIC_NAME: "value" }, options }),
  );
}

async function checkProxy(subject: Subject): Promise<void> {
  expect(
    isInserted((await subject.page("/")).around, PAGE),
    "expected the element in a page",
  );
  expect(
    isInserted((await subject.page("/missing.html")).around, PAGE),
    "expected the element in a page with a 404",
  );
  expectEqual("JSON", (await subject.ask("/data.json")).text, DATA);
}
