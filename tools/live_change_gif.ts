/**
 * Films changes of the example's env file and the page that follows them, and writes docs/live-change.gif:
 * `deno run $(deno run -A tools/std.ts) -A tools/live_change_gif.ts`. It needs a browser, see `find_browser.ts`.
 */
import { decode } from "fast-png";
import { encode } from "modern-gif";
import { chromium, type Frame, type Page } from "playwright-core";
import { findBrowser } from "./find_browser.ts";
import { stdFlags } from "./std.ts";
import { TextLineStream } from "./text_lines.ts";

const FILE = "docs/live-change.gif";
const SIZE = { width: 920, height: 500 };
/** Few enough for a small file; the page has hardly more. */
const MAX_COLORS = 128;

/** A change: the value of a variable is replaced, one character after the other, and the file is saved. */
interface Edit {
  readonly name: string;
  readonly from: string;
  readonly to: string;
}

const EDITS: readonly Edit[] = [
  { name: "GREETING", from: "Hello from the gateway", to: "Good morning" },
  {
    name: "FEATURE_FLAGS",
    from: "new-checkout,gift-cards",
    to: "new-checkout,dark-mode",
  },
];

/** Also keeps each keystroke visible: modern-gif 2.1 loses a change that is only one pixel high, such as a hyphen. */
const CARET = "▏";

/** How long the frames are shown, in milliseconds: ten seconds in all. */
const START_MS = 1_200;
const KEY_MS = 80;
const PAUSE_MS = 400;
const GLOW_MS = 2_800;
const GLOW_FRAME_MS = 200;

/** A frame of the GIF. */
interface Picture {
  readonly data: Uint8ClampedArray<ArrayBuffer>;
  delay: number;
}

/** The editor at the left, the page at the right. */
function stageHtml(pageUrl: string): string {
  return `<!doctype html><meta charset="utf-8"><style>
    body { margin: 0; height: 100vh; overflow: hidden; display: grid; grid-template-columns: 400px 1fr; }
    #editor { background: #22252b; color: #e8e6e1; font: 12.5px/2.1 ui-monospace, Menlo, Consolas, monospace; }
    #title { padding: 8px 16px; background: #16181d; color: #a3a8b3; }
    #status { float: right; color: #7fd3a0; }
    #text { margin: 0; padding: 12px 16px; font: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
    iframe { border: 0; width: 128%; height: 640px; transform: scale(0.78125); transform-origin: 0 0; }
  </style>
  <div id="editor"><div id="title">examples/example.env <span id="status"></span></div><pre id="text"></pre></div>
  <div><iframe src="${pageUrl}"></iframe></div>`;
}

/** Returns what the value looks like while it is edited: removed from its end, then typed. */
function keystrokes({ from, to }: Edit): string[] {
  let common = 0;
  while (common < from.length && from[common] === to[common]) common++;
  return Array.from(
    { length: to.length - common + 1 },
    (_, index) => to.slice(0, common + index),
  );
}

/** The pictures of a change, from the first keystroke until the page has followed. */
class Film {
  readonly pictures: Picture[] = [];
  readonly #stage: Page;
  readonly #envFile: string;
  #text: string;

  constructor(stage: Page, envFile: string, text: string) {
    this.#stage = stage;
    this.#envFile = envFile;
    this.#text = text;
  }

  async start(): Promise<void> {
    await this.#show(this.#text, "");
    await this.#take(START_MS);
  }

  async edit(edit: Edit): Promise<void> {
    for (const value of keystrokes(edit)) {
      const line = new RegExp(`^(REP_PUBLIC_${edit.name})=.*$`, "m");
      this.#text = this.#text.replace(line, (_, name) => `${name}=${value}`);
      await this.#show(this.#text.replace(line, `$&${CARET}`), "not saved");
      await this.#take(KEY_MS);
    }
    this.pictures.at(-1)!.delay = PAUSE_MS;
    await this.#show(this.#text, "saved");
    await this.#take(0);
    this.pictures.at(-1)!.delay = await this.#save(edit);
    await this.#takeGlow();
  }

  /** Writes the file, and returns after how many milliseconds the page has the new value. */
  async #save({ to }: Edit): Promise<number> {
    const savedAt = performance.now();
    await Deno.writeTextFile(this.#envFile, this.#text);
    await pageIn(this.#stage).locator(`td:text-is("${to}")`).waitFor();
    return performance.now() - savedAt;
  }

  /** Sets the animation of the changed row to each of its times, since a screenshot takes longer than a frame. */
  async #takeGlow(): Promise<void> {
    for (let time = 0; time < GLOW_MS; time += GLOW_FRAME_MS) {
      await setAnimations(pageIn(this.#stage), time);
      await this.#take(GLOW_FRAME_MS);
    }
    await pageIn(this.#stage).evaluate(
      "for (const animation of document.getAnimations()) animation.finish()",
    );
  }

  async #show(file: string, status: string): Promise<void> {
    const text = file.split("\n").filter((line) => line.startsWith("REP_"))
      .join("\n");
    await this.#stage.locator("#text").evaluate(
      (element, text) => element.textContent = text,
      text,
    );
    await this.#stage.locator("#status").evaluate(
      (element, status) => element.textContent = status,
      status,
    );
  }

  async #take(delay: number): Promise<void> {
    this.pictures.push({ data: toRgba(await this.#stage.screenshot()), delay });
  }
}

/** Returns the page in the stage. */
function pageIn(stage: Page): Frame {
  return stage.frames()[1]!;
}

async function setAnimations(frame: Frame, timeMs: number): Promise<void> {
  await frame.evaluate(`for (const animation of document.getAnimations()) {
    animation.pause();
    animation.currentTime = ${timeMs};
  }`);
}

function toRgba(png: Uint8Array): Uint8ClampedArray<ArrayBuffer> {
  const { data, channels, width, height } = decode(png);
  const rgba = new Uint8ClampedArray(width * height * 4).fill(255);
  for (let pixel = 0; pixel < width * height; pixel++) {
    for (let channel = 0; channel < channels; channel++) {
      rgba[pixel * 4 + channel] = data[pixel * channels + channel]!;
    }
  }
  return rgba;
}

/** Starts the gateway on the example page and an env file, and returns where it listens. */
async function startGateway(
  envFile: string,
): Promise<{ url: string; process: Deno.ChildProcess }> {
  const flags = [
    "--hostname",
    "127.0.0.1",
    "--port",
    "0",
    "--allowed-hosts",
    "127.0.0.1",
    "--kv",
    ":memory:",
  ];
  const example = [
    "--static-dir",
    "examples/page",
    "--manifest",
    "examples/rep.yaml",
    "--env-file",
    envFile,
  ];
  const args = [
    "run",
    "--quiet",
    ...await stdFlags(),
    "-A",
    "main.ts",
    ...flags,
    ...example,
  ];
  const process = new Deno.Command(Deno.execPath(), {
    args,
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  for await (
    const line of process.stdout.pipeThrough(new TextDecoderStream())
      .pipeThrough(new TextLineStream())
  ) {
    const { msg, url } = JSON.parse(line);
    if (msg === "rep.listening") return { url, process };
  }
  throw new Error(
    "Cannot start the gateway: expected rep.listening in its log",
  );
}

async function openStage(url: string) {
  const found = await findBrowser();
  if ("reason" in found) {
    throw new Error(`Cannot start a browser: ${found.reason}`);
  }
  const env = { ...Deno.env.toObject(), ...found.env };
  const browser = await chromium.launch({
    executablePath: found.path,
    args: ["--no-sandbox", "--disable-gpu"],
    env,
  });
  const stage = await browser.newPage({ viewport: SIZE, colorScheme: "light" });
  await stage.setContent(stageHtml(url));
  await stage.frameLocator("iframe").locator('#state[data-state="open"]')
    .waitFor();
  return { browser, stage };
}

async function makeGif(): Promise<Uint8Array> {
  const envFile = await Deno.makeTempFile({ suffix: ".env" });
  const text = await Deno.readTextFile("examples/example.env");
  await Deno.writeTextFile(envFile, text);
  const { url, process } = await startGateway(envFile);
  const { browser, stage } = await openStage(url);
  try {
    const film = new Film(stage, envFile, text);
    await film.start();
    for (const edit of EDITS) await film.edit(edit);
    const options = {
      ...SIZE,
      frames: film.pictures,
      maxColors: MAX_COLORS,
      looped: true,
    };
    return new Uint8Array(await encode(options));
  } finally {
    await browser.close();
    process.kill("SIGTERM");
    await process.status;
    await Deno.remove(envFile);
  }
}

if (import.meta.main) {
  const gif = await makeGif();
  await Deno.writeFile(FILE, gif);
  await Deno.stdout.write(
    new TextEncoder().encode(`${FILE}: ${gif.length} bytes\n`),
  );
  Deno.exit(); // Playwright's pipes outlive the browser
}
