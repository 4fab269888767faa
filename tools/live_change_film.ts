/**
 * Films what a change of the env file does to the example page, and writes docs/live-change.gif:
 * `deno run $(deno run -A tools/std.ts) -A tools/live_change_film.ts`. It needs ffmpeg, and a browser: see
 * `find_browser.ts`.
 */
import { join } from "@std/path";
import type { Page } from "playwright-core";
import { createGateway, createLog, type Gateway } from "../main.ts";
import { parseEnvFile } from "../src/files/read_environment.ts";
import { launchBrowser } from "./launch_browser.ts";

const FILE = "docs/live-change.gif";
const SIZE = { width: 920, height: 440 };
/** The film has no room for the sections below. */
const STYLE =
  "section:nth-of-type(n+3) { display: none } html { font-size: 13px }";

const FIRST = "Hello from the gateway";
const SECOND = "Good morning";
const FRAME_MS = 90;
const PAUSE_MS = 1_600;

/** The editor, the log of the gateway below it, and the page on the right. */
const STAGE = `<!doctype html><meta charset="utf-8"><style>
body { margin: 0; display: grid; grid-template: 1fr 128px / 400px 1fr; height: ${SIZE.height}px; font: 12.5px/1.75 monospace; color: #e8e6e1; background: #22252b }
section { padding: 12px 16px; white-space: pre; overflow: hidden }
h1 { font: inherit; color: #a3a8b3; margin: 0 0 10px }
#log { grid-row: 2; background: #16181d; color: #7fd3a0; white-space: pre-wrap }
#log h1 { margin: 0 }
b { font-weight: normal; color: #7fd3a0 } i { font-style: normal; color: #a3a8b3 }
u { text-decoration: none; border-right: 2px solid #f0bf62 }
iframe { grid-area: 1 / 2 / 3; border: 0; width: 100%; height: 100% }
</style><section><h1>examples/example.env</h1><div id="file"></div></section><section id="log"><h1>the gateway's log</h1><div id="lines"></div></section>
<iframe src="PAGE"></iframe>`;

/** Returns the env file as the editor shows it, with the cursor after the greeting. */
function fileWith(greeting: string, isSaved: boolean): string {
  return `<i># in every page</i>
REP_PUBLIC_GREETING=${greeting}<u></u>
REP_PUBLIC_API_URL=https://api.example.com
REP_PUBLIC_FEATURE_FLAGS=new-checkout

<i># in every page, encrypted</i>
REP_SENSITIVE_ANALYTICS_KEY=example-key

<i># never leaves the gateway</i>
REP_SERVER_DATABASE_URL=postgres://db/shop
${isSaved ? "\n<b>saved</b>" : ""}`;
}

/** Returns the text of the env file, without the editor's colors. */
function textOf(file: string): string {
  return file.replaceAll(/<b>.*?<\/b>/g, "").replaceAll(/<[^>]+>/g, "");
}

/** The frames of the film, each with the time for which it is shown. */
class Film {
  readonly #page: Page;
  readonly #folder: string;
  readonly #list: string[] = [];

  constructor(page: Page, folder: string) {
    this.#page = page;
    this.#folder = folder;
  }

  async show(file: string, ms: number): Promise<void> {
    await this.#page.locator("#file").evaluate((element, html) => {
      element.innerHTML = html;
    }, file);
    await this.take(ms);
  }

  async take(ms: number): Promise<void> {
    const path = join(this.#folder, `${this.#list.length}.png`);
    await this.#page.screenshot({ path });
    this.#list.push(`file '${path}'\nduration ${ms / 1_000}`);
  }

  /** Writes the film with as few colors as it needs. */
  async write(): Promise<void> {
    const list = join(this.#folder, "frames.txt");
    const last = this.#list.at(-1)?.split("\n")[0]; // ffmpeg ignores the duration of the last entry
    await Deno.writeTextFile(list, [...this.#list, last].join("\n"));
    const filter =
      "split[a][b];[a]palettegen=max_colors=64[p];[b][p]paletteuse=dither=none";
    const input = ["-f", "concat", "-safe", "0", "-i", list];
    const args = ["-loglevel", "error", "-y", ...input, "-vf", filter, FILE];
    const { success, stderr } = await new Deno.Command("ffmpeg", { args })
      .output();
    if (success) return;
    throw new Error(
      `Cannot write ${FILE}: ${new TextDecoder().decode(stderr)}`,
    );
  }
}

async function openStage(pageUrl: string): Promise<Page> {
  const browser = await launchBrowser();
  const page = await browser.newPage({ viewport: SIZE, colorScheme: "light" });
  await page.setContent(STAGE.replace("PAGE", pageUrl));
  await page.frameLocator("iframe").getByText(FIRST).first().waitFor();
  await page.frames()[1]?.addStyleTag({ content: STYLE });
  return page;
}

if (import.meta.main) {
  let file = fileWith(FIRST, false);
  const lines: string[] = [];
  const log = createLog({
    format: "text",
    write: (line) => lines.push(line.replace(/^\S+ +/, "")),
  });
  const gateway: Gateway = await createGateway({
    variables: () => Object.fromEntries(parseEnvFile(textOf(file)).variables),
    hotReload: true,
    staticDir: "examples/page",
    log,
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    gateway.fetch,
  );
  const page = await openStage(`http://127.0.0.1:${server.addr.port}/`);
  const film = new Film(page, await Deno.makeTempDir());
  await film.show(file, PAUSE_MS);
  for (let length = FIRST.length - 1; length >= 0; length -= 3) {
    await film.show(fileWith(FIRST.slice(0, length), false), FRAME_MS);
  }
  for (let length = 1; length <= SECOND.length; length++) {
    await film.show(fileWith(SECOND.slice(0, length), false), FRAME_MS);
  }
  file = fileWith(SECOND, true);
  await gateway.reload();
  const news = `GREETING is now ${SECOND}`;
  await page.frameLocator("iframe").getByText(news).waitFor();
  const changes = lines.filter((line) => line.includes("rep.config.changed"));
  await page.locator("#lines").evaluate((element, text) => {
    element.textContent = text;
  }, changes.slice(-1).join("\n"));
  await film.show(file, 2 * PAUSE_MS);
  await film.write();
  Deno.exit(); // Playwright's pipes outlive the browser
}
