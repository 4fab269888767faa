import { assertEquals } from "@std/assert";
import { encodeBase64 } from "@std/encoding/base64";
import { type RunningCommand, startCommand } from "./_command.ts";
import { TempDirectory } from "./_temp.ts";

const CANARIES = {
  sensitive: "canary-sensitive-7f3a9",
  server: "canary-server-51c2e",
  changed: "canary-changed-d08b4",
  broken: "canary-broken-93e7f",
  byDefault: "canary-default-2ab61",
};

const ENV = `REP_PUBLIC_SHOWN=public-4711
REP_SENSITIVE_S=${CANARIES.sensitive}
REP_SERVER_V=${CANARIES.server}
`;

const MANIFEST = `version: "0.1.0"
variables:
  S: { tier: sensitive, pattern: "canary-(sensitive|changed)-.*" }
  V: { tier: server, type: string }
  D: { tier: sensitive, default: ${CANARIES.byDefault} }
`;

/** What must be rejected, each in a way that could tempt a message to quote what it found. */
const BROKEN: readonly [env: string, manifest: string][] = [
  [ENV.replace(CANARIES.sensitive, CANARIES.broken), MANIFEST],
  [`${ENV}REP_PUBLIC_S=${CANARIES.broken}\n`, MANIFEST],
  [
    ENV,
    MANIFEST.replace(
      "tier: server, type: string",
      "tier: server, type: number",
    ),
  ],
  [ENV, `${MANIFEST}\n  E: { tier: server, default: "${CANARIES.broken}" ]`],
  [ENV, `${MANIFEST}\n  E: { tier: sensitive, default: [${CANARIES.broken}] }`],
  [ENV, `${MANIFEST}\n  E: { tier: sensitive, default:${CANARIES.broken} }`],
  [ENV, `${MANIFEST}\n  E: { tier: sensitive, type: ${CANARIES.broken} }`],
  [`${ENV}${CANARIES.broken}\n`, MANIFEST],
  [`${ENV}REP_SENSITIVE_E="${CANARIES.broken}\n`, MANIFEST],
  [ENV, `${MANIFEST}\n  V: { tier: server, default: "${CANARIES.broken}" }`],
];

async function wholeAnswer(url: string, init?: RequestInit) {
  const response = await fetch(url, init);
  const head = [response.status, ...[...response.headers].flat()].join("\n");
  if (!url.includes("/rep/changes")) return `${head}\n${await response.text()}`;
  const reader = response.body?.getReader();
  let text = head;
  while (!text.includes("public-4711") && response.ok) {
    const chunk = await reader?.read();
    if (chunk?.value === undefined) break;
    text += new TextDecoder().decode(chunk.value);
  }
  await reader?.cancel();
  return text;
}

async function everyAnswer({ url }: RunningCommand): Promise<string[]> {
  const answers = [];
  const paths = ["health", "session-key", "session-key?kid=1", "changes", "x"];
  const conditions: Record<string, string>[] = [
    {},
    { origin: "https://evil.example" },
    { "last-event-id": "0" },
    { "last-event-id": "x" },
  ];
  for (const path of [...paths.map((name) => `/rep/${name}`), "/"]) {
    for (const headers of conditions) {
      if (path === "/rep/changes" && !("last-event-id" in headers)) continue; // it would have nothing to say
      answers.push(await wholeAnswer(url + path, { headers }));
    }
    answers.push(await wholeAnswer(url + path, { method: "POST", body: "x" }));
  }
  return answers;
}

Deno.test("values of SENSITIVE and SERVER variables are in no answer, no event, no log line and no store", async () => {
  await using directory = await TempDirectory.make();
  const write = async (env: string, manifest: string) => {
    await directory.write("app.env", env);
    await directory.write("rep.yaml", manifest);
  };
  await write(ENV, MANIFEST);
  const flags = [
    "--hot-reload",
    "--env-file",
    directory.at("app.env"),
    "--manifest",
    directory.at("rep.yaml"),
    "--kv",
    directory.at("kv.sqlite3"),
    "--log-level=debug",
  ];
  await using command = await startCommand(flags);
  const answers = await everyAnswer(command);
  for (const [index, [envText, manifestText]] of BROKEN.entries()) {
    await write(envText, manifestText);
    command.signal("SIGHUP");
    await command.logged(() =>
      command.output.filter((line) => line.includes("rep.config.rejected"))
        .length > index
    );
  }
  answers.push(...await everyAnswer(command));
  await write(ENV.replace(CANARIES.sensitive, CANARIES.changed), MANIFEST);
  command.signal("SIGHUP");
  await command.logged(({ msg }) => msg === "rep.config.reloaded");
  answers.push(...await everyAnswer(command));
  command.signal("SIGTERM");
  assertEquals(await command.ended(), 0);

  const stored = [];
  for await (const { name } of Deno.readDir(directory.path)) {
    if (!name.startsWith("kv.")) continue;
    const bytes = await Deno.readFile(directory.at(name));
    stored.push(new TextDecoder("latin1").decode(bytes));
  }
  const places = {
    answers: answers.join("\n"),
    log: command.output.join("\n"),
    store: stored.join("\n"),
  };
  const found = [];
  for (const [place, text] of Object.entries(places)) {
    for (const [name, value] of Object.entries(CANARIES)) {
      const isFound = text.includes(value) ||
        text.includes(encodeBase64(value));
      if (isFound) found.push(`${name} in ${place}`);
    }
  }
  assertEquals(found, []);
  // The search finds what is there.
  assertEquals(places.answers.includes("public-4711"), true);
  assertEquals(places.store.includes("public-4711"), true);
  assertEquals(places.log.includes("rep.session_key.issued"), true);
});
