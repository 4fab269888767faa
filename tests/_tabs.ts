import { delay } from "@std/async/delay";
import { findBrowser } from "../tools/find_browser.ts";
import { TempDirectory } from "./_temp.ts";

/** How often an expression is looked at, ten times a second. */
const MAX_LOOKS = 600;

/** The answer to a command of the Chrome DevTools Protocol, as far as it is used here. */
interface Answer {
  readonly targetId: string;
  readonly sessionId: string;
  readonly result: { readonly value: unknown };
}

/** A tab of a window in which only one tab is shown. */
export interface Tab {
  /** Shows the tab, and hides the others. */
  show(): Promise<void>;
  /** Waits until an expression is true in the tab. */
  until(expression: string): Promise<void>;
  evaluate(expression: string): Promise<unknown>;
}

/**
 * A browser with tabs of which all but one are hidden. Playwright has every page believe that it is shown, so this talks
 * to the browser itself.
 */
export class Tabs implements AsyncDisposable {
  readonly #browser: Deno.ChildProcess;
  readonly #profile: TempDirectory;
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, (answer: Answer | undefined) => void>();
  #commands = 0;

  private constructor(
    browser: Deno.ChildProcess,
    profile: TempDirectory,
    socket: WebSocket,
  ) {
    this.#browser = browser;
    this.#profile = profile;
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const { id, result } = JSON.parse(data);
      this.#answers.get(id)?.(result);
    };
  }

  /**
   * Starts the browser.
   *
   * @throws {Error} If there is none.
   */
  static async start(): Promise<Tabs> {
    const found = await findBrowser();
    if ("reason" in found) {
      throw new Error(`Cannot start a browser: ${found.reason}`);
    }
    const profile = await TempDirectory.make();
    const args = [
      "--headless=new",
      "--no-sandbox",
      "--disable-gpu",
      "--no-first-run",
      "--remote-debugging-port=0",
    ];
    const browser = new Deno.Command(found.path, {
      args: [...args, `--user-data-dir=${profile.path}`, "about:blank"],
      env: found.env,
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const socket = new WebSocket(await debuggingUrl(browser.stderr));
    await new Promise((resolve) => socket.onopen = resolve);
    return new Tabs(browser, profile, socket);
  }

  /** Opens a URL in a new tab, which is shown. */
  async open(url: string): Promise<Tab> {
    const { targetId } = await this.#send("Target.createTarget", { url });
    const { sessionId } = await this.#send("Target.attachToTarget", {
      targetId,
      flatten: true,
    });
    const evaluate = async (expression: string) => {
      const answer = await this.#call("Runtime.evaluate", {
        expression,
        awaitPromise: true,
      }, sessionId);
      return answer?.result.value; // none if the tab was still on its way to the page
    };
    return {
      show: async () =>
        void await this.#send("Target.activateTarget", { targetId }),
      evaluate,
      until: async (expression) => {
        for (let looks = 0; await evaluate(expression) !== true; looks++) {
          if (looks === MAX_LOOKS) {
            throw new Error(
              `Cannot go on: expected ${expression} within a minute`,
            );
          }
          await delay(100);
        }
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#send("Browser.close", {});
    this.#socket.close();
    await this.#browser.status;
    await this.#profile[Symbol.asyncDispose]();
  }

  async #send(
    method: string,
    params: Record<string, unknown>,
  ): Promise<Answer> {
    const answer = await this.#call(method, params);
    if (answer === undefined) {
      throw new Error(
        `Cannot control the browser: expected an answer to ${method}`,
      );
    }
    return answer;
  }

  #call(
    method: string,
    params: Record<string, unknown>,
    sessionId?: string,
  ): Promise<Answer | undefined> {
    const id = ++this.#commands;
    this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    return new Promise((resolve) => this.#answers.set(id, resolve));
  }
}

/** Returns the URL that the browser prints once it listens, and reads on, since the browser waits for its reader. */
async function debuggingUrl(
  stderr: ReadableStream<Uint8Array>,
): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  let text = "";
  const find = (chunk: string) => {
    text += chunk;
    const [url] = /ws:\/\/\S+/.exec(text) ?? [];
    if (url !== undefined) resolve(url);
  };
  void stderr.pipeThrough(new TextDecoderStream()).pipeTo(
    new WritableStream({ write: find }),
  );
  return await promise;
}
