import { dirname } from "@std/path";
import { openSites } from "../../../src/command/sites/sites.ts";
import { memoryStore } from "../../../src/engines/memory.ts";
import type { Store } from "../../../src/core/store/store.ts";
import { denoFileSystem } from "../../../src/files/local_files.ts";
import { UNKNOWN_PROCESS } from "../../../src/options.ts";
import { FakeClock } from "../../../tools/fake_clock.ts";
import { captureLog } from "../../_gateway.ts";
import { readSse } from "../../_sse.ts";
import { TempDirectory } from "../../_temp.ts";
import { optionsOf } from "../_options.ts";

/** A page of an app, with a title. */
export function html(title: string): string {
  return `<!doctype html><html><head><title>${title}</title></head></html>`;
}

interface SetUp {
  /** Files by their paths in the directory of the test; the sites are in `sites/`. */
  files?: Record<string, string>;
  /** Further arguments, in which `%` is the directory of the test. */
  args?: readonly string[];
  /** The variables of the command. */
  base?: Record<string, string>;
  store?: Store;
  /** The directory of the sites. @default {"sites"} */
  directory?: string;
}

/** What `openSites()` serves, and the directory. */
export async function serveSites(
  {
    files = {},
    args = [],
    base = {},
    store = memoryStore(),
    directory: name = "sites",
  }: SetUp,
) {
  const directory = await TempDirectory.make();
  async function write(all: Record<string, string>): Promise<void> {
    for (const [name, text] of Object.entries(all)) {
      await Deno.mkdir(dirname(directory.at(name)), { recursive: true });
      await directory.write(name, text);
    }
  }
  await Deno.mkdir(directory.at("sites"));
  await write(files);
  const clock = new FakeClock(Date.now());
  const { log, lines } = captureLog();
  const options = optionsOf(
    [`--sites=%/${name}`, "--hot-reload", ...args].map((arg) =>
      arg.replaceAll("%", directory.path)
    ),
  );
  const process = { ...UNKNOWN_PROCESS, sourceOf: () => "app.env" };
  const state = { base };
  const sites = await openSites({
    options,
    directory: directory.at(name),
    variables: () => Promise.resolve(state.base),
    process,
    services: {
      masterKey: new Uint8Array(32).fill(7),
      instanceId: undefined,
      store,
      log,
      telemetry: undefined,
      clock,
    },
    files: denoFileSystem,
  });
  /** Sends a request for a host. */
  async function ask(
    host: string,
    path = "/",
    headers: HeadersInit = {},
    peer = "192.0.2.1",
  ): Promise<Response> {
    const request = new Request(`http://${host}${path}`, { headers });
    const remoteAddr = { transport: "tcp", hostname: peer };
    return await sites.fetch(request, { remoteAddr });
  }
  return {
    sites,
    state,
    clock,
    lines,
    at: (name: string) => directory.at(name),
    write,
    ask,
    /** The sites of the lines with an event, without those for debugging. */
    logged: (event: string) =>
      lines.filter(({ msg, level }) => msg === event && level !== "DEBUG").map((
        { site },
      ) => site),
    /** The status of a response, or the PUBLIC values in its page with the page's title. */
    async read(host: string, path = "/") {
      const response = await ask(host, path);
      const text = await response.text();
      if (response.status !== 200) return response.status;
      const [, payload = "{}"] = /<script id="__rep__"[^>]*>(.*?)<\/script>/s
        .exec(text) ?? [];
      const [, title] = /<title>(.*?)<\/title>/.exec(text) ?? [];
      return { title, ...JSON.parse(payload).public };
    },
    async listen(host: string, query = "") {
      return readSse(await ask(host, `/rep/changes${query}`));
    },
    /** Asks the port that stays internal. */
    async internal(path: string) {
      const request = new Request(`http://127.0.0.1${path}`);
      return await sites.fetchHealth(request);
    },
    /** Lets the next look at the directory happen, and waits for it. */
    async look() {
      await clock.tick(1_500);
      await clock.tickUntil(sites.looked(), 50);
    },
    /** Reloads as SIGHUP does. */
    async reload(isRequested = true) {
      await clock.tickUntil(sites.reload({ isRequested }), 50);
    },
    async [Symbol.asyncDispose]() {
      await clock.tickUntil(sites.close(), 50);
      await directory[Symbol.asyncDispose]();
    },
  };
}
