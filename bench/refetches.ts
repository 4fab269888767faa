/**
 * Pages with OpenFeature's web SDK: after a change, all of them ask for the flags again.
 *
 *     deno task bench refetches --pages 5000 --changes 5
 *
 * How soon all pages have a change, and the CPU time of the command for each page. A change is a new value in the env
 * file and a SIGHUP. A page is two bare connections of this process: its stream, and one for its requests, which it
 * makes as the SDK does, 50 ms after the event.
 */
import { delay } from "@std/async/delay";
import { figure, quantile, type Report } from "./_report.ts";
import { startGateway } from "./_servers.ts";
import { changeVariable, createSite, type Site } from "./_site.ts";
import type { SubjectProcess } from "./_subject_process.ts";
import { TextConnection } from "./_text_connection.ts";

/** The sizes of the benchmark. */
export const REFETCH_SIZES = { pages: 5_000, changes: 5 };

/** Two connections a page, each of which holds that much. */
const BUFFER_BYTES = 4_096;
/** How long the SDK waits for further events. */
const DEBOUNCE_MS = 50;
/** Connections opened at once: more than the listener's backlog would be refused. */
const BATCH = 100;

/** Runs the benchmark. */
export async function refetches(sizes: typeof REFETCH_SIZES): Promise<Report> {
  await using site = await createSite();
  await using process = await startServer(site, sizes.pages);
  const pages: Page[] = [];
  while (pages.length < sizes.pages) {
    const size = Math.min(BATCH, sizes.pages - pages.length);
    const opening = Array.from({ length: size }, () => Page.open(process.port));
    pages.push(...await Promise.all(opening));
  }
  const half: number[] = [];
  const most: number[] = [];
  const all: number[] = [];
  const cpu: number[] = [];
  for (let change = 0; change < sizes.changes; change++) {
    const before = await process.usage();
    const changed = pages.map((page) => page.follow());
    const startedAt = performance.now();
    await changeVariable(site);
    process.reload();
    const times = (await Promise.all(changed)).map((at) => at - startedAt);
    const after = await process.usage();
    half.push(quantile(times, 0.5));
    most.push(quantile(times, 0.99));
    all.push(Math.max(...times));
    cpu.push((after.cpuUs - before.cpuUs) / pages.length);
  }
  const unchanged = await cpuOfEach(process, pages, (page) => page.refetch());
  for (const page of pages) page.close();
  return {
    title: `${sizes.pages.toLocaleString("en")} pages ask for the flags again`,
    figures: [
      figure("half of the pages have a change", "ms", half),
      figure("99 % have it", "ms", most),
      figure("all have it", "ms", all),
      figure("CPU, of an event and the flags for one page", "µs", cpu),
      figure("CPU, of a 304", "µs", [unchanged]),
    ],
  };
}

async function startServer(site: Site, pages: number): Promise<SubjectProcess> {
  const max = String(pages);
  const limits = ["--max-streams", max, "--max-streams-per-client", max];
  const store = ["--kv", ":memory:"];
  return await startGateway(site, [
    "--ofrep",
    "--hot-reload",
    ...store,
    ...limits,
  ]);
}

async function cpuOfEach(
  process: SubjectProcess,
  pages: readonly Page[],
  request: (page: Page) => Promise<unknown>,
): Promise<number> {
  const before = await process.usage();
  await Promise.all(pages.map(request));
  const after = await process.usage();
  return (after.cpuUs - before.cpuUs) / pages.length;
}

/** A page that has the flags, and listens to changes. */
class Page {
  readonly #stream: TextConnection;
  readonly #requests: TextConnection;
  #etag = "";
  #streamPath = "";

  private constructor(stream: TextConnection, requests: TextConnection) {
    this.#stream = stream;
    this.#requests = requests;
  }

  static async open(port: number): Promise<Page> {
    const [stream, requests] = await Promise.all([
      TextConnection.open(port, BUFFER_BYTES),
      TextConnection.open(port, BUFFER_BYTES),
    ]);
    const page = new Page(stream, requests);
    await page.refetch();
    await stream.send(`GET ${page.#streamPath} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await stream.readUntil(/: connected\nid: \d+\n\n/);
    return page;
  }

  /** Waits for the next event, and asks for the flags. Returns when the page had them. */
  async follow(): Promise<number> {
    const event = /"refetchEvaluation","etag":"(\d+)"\}\nid: \d+\n\n/;
    const [, cursor] = await this.#stream.readUntil(event);
    const before = this.#etag;
    await delay(DEBOUNCE_MS);
    await this.refetch(`?flagConfigEtag=${cursor}`);
    if (this.#etag === before) throw new Error("The flags are the same");
    return performance.now();
  }

  /** Asks for the flags, unless they are those that the page has. */
  async refetch(query = ""): Promise<void> {
    const body = `{"context":{}}`;
    await this.#requests.send(
      `POST /ofrep/v1/evaluate/flags${query} HTTP/1.1\r\nHost: a\r\n` +
        `If-None-Match: ${this.#etag}\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    );
    const response = /HTTP\/1.1 (?:304[^]+?\r\n\r\n|200[^]+?\}\]\})/;
    const [text] = await this.#requests.readUntil(response);
    this.#etag = /etag: (.+)\r\n/.exec(text)?.[1] ?? "";
    this.#streamPath = /"requestUri":"([^"]+)"/.exec(text)?.[1] ?? "";
  }

  close(): void {
    this.#stream.close();
    this.#requests.close();
  }
}
