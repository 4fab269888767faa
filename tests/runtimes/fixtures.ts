import {
  createGateway,
  createLog,
  type Gateway,
  type GatewayOptions,
  memoryStore,
} from "@rep/gateway";

/** Where the gateway of a check is, for its clients. */
export const ORIGIN = "https://app.example.com";

/** A tier that lost all its variables would be rejected, so that these stay. */
const HIDDEN = { REP_SENSITIVE_TOKEN: "t0ken", REP_SERVER_SECRET: "hidden" };

/** Variables of all three tiers. */
export const VARIABLES = { REP_PUBLIC_TITLE: "</script>", ...HIDDEN };

const PAGE =
  "<!doctype html><html><head><title>x</title></head><body>&amp;</body></html>";

/** A gateway whose variables a check sets. */
export interface Subject {
  readonly gateway: Gateway;
  readonly lines: Record<string, unknown>[];
  /** Sends a request from an address. */
  ask(path: string, init?: RequestInit, hostname?: string): Promise<Response>;
  /** Replaces the variables that are not {@linkcode HIDDEN}, and reloads. */
  set(variables: Record<string, string>): Promise<void>;
  /** Returns a page with the configuration. */
  page(headers?: HeadersInit, init?: ResponseInit): Promise<Response>;
}

/** Calls a function with a gateway, and closes it. */
export async function withGateway(
  options: GatewayOptions,
  use: (subject: Subject) => Promise<void>,
): Promise<void> {
  const lines: Record<string, unknown>[] = [];
  let variables: Record<string, string> = VARIABLES;
  const gateway = await createGateway({
    variables: () => variables,
    log: createLog({
      write: (line: string) => void lines.push(JSON.parse(line)),
    }),
    store: memoryStore(),
    ...options,
  });
  try {
    await use({
      gateway,
      lines,
      ask: async (path, init = {}, hostname = "192.0.2.1") =>
        await gateway.fetch(new Request(ORIGIN + path, init), {
          remoteAddr: { transport: "tcp", hostname },
        }),
      async set(replaced) {
        variables = { ...HIDDEN, ...replaced };
        await gateway.reload();
      },
      async page(headers = {}, init = {}) {
        const response = new Response(PAGE, {
          headers: { "content-type": "text/html" },
          ...init,
        });
        return await gateway.inject(
          response,
          new Request(`${ORIGIN}/`, { headers }),
        );
      },
    });
  } finally {
    await gateway.close();
  }
}

/** What a page contains. */
export interface Configuration {
  /** The page without the element. */
  readonly rest: string;
  readonly text: string;
  readonly integrity: string;
  readonly payload: {
    readonly public: Record<string, string>;
    readonly sensitive?: string;
    readonly _meta: {
      readonly key_endpoint: string;
      readonly hot_reload: string;
      readonly integrity: string;
    };
  };
}

/** Reads what a page contains. */
export async function readConfiguration(
  page: Response,
): Promise<Configuration> {
  const html = await page.text();
  const [element = "", integrity = "", text = ""] =
    /<script id="__rep__"[^>]* data-rep-integrity="([^"]+)"[^>]*>(.*?)<\/script>/s
      .exec(html) ?? [];
  return {
    rest: html.replace(element, ""),
    text,
    integrity,
    payload: JSON.parse(text),
  };
}

/** The page as it was before. */
export const isUnchanged = (rest: string) => rest.replaceAll("\n", "") === PAGE;

/** An event of a stream. */
export interface StreamEvent {
  readonly type: string;
  readonly data: {
    readonly key: string;
    readonly tier: string;
    readonly value?: string;
  };
  readonly id: number;
}

/** Reads a stream of changes. */
export class StreamReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  #text = "";

  constructor(response: Response) {
    if (response.body === null) throw new Error("expected a stream");
    this.#reader = response.body.getReader();
  }

  /** Returns all text up to the end of a pattern. */
  async until(pattern: RegExp): Promise<string> {
    const decoder = new TextDecoder();
    while (!pattern.test(this.#text)) {
      const { value, done } = await this.#reader.read();
      if (done) {
        throw new Error(
          `expected ${pattern}, and the stream ended with ${
            JSON.stringify(this.#text)
          }`,
        );
      }
      this.#text += decoder.decode(value);
    }
    return this.#text;
  }

  /** Returns the first events. */
  async events(count: number): Promise<StreamEvent[]> {
    const text = await this.until(
      new RegExp(`(?:^event: [^]*?^id: \\d+\\n\\n[^]*?){${count}}`, "m"),
    );
    return [...text.matchAll(/^event: (\S+)\ndata: (.+)\nid: (\d+)$/gm)].map(
      ([, type = "", data = "", id]) => {
        return { type, data: JSON.parse(data), id: Number(id) };
      },
    );
  }

  /** Reads to the end of the stream. */
  async end(): Promise<void> {
    while (!(await this.#reader.read()).done);
  }

  async close(): Promise<void> {
    await this.#reader.cancel();
  }
}

/** Decodes base64. */
export function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Opens the SENSITIVE values of a page with a session key, as REP-RFC-0001 §8.2 says. */
export async function decrypt(
  { payload }: Configuration,
  key: string,
): Promise<unknown> {
  const blob = bytesOf(payload.sensitive ?? "");
  const additionalData = new TextEncoder().encode(payload._meta.integrity);
  const aesKey = await crypto.subtle.importKey(
    "raw",
    bytesOf(key),
    "AES-GCM",
    false,
    ["decrypt"],
  );
  const algorithm = {
    name: "AES-GCM",
    iv: blob.subarray(0, 12),
    additionalData,
  };
  return JSON.parse(
    new TextDecoder().decode(
      await crypto.subtle.decrypt(algorithm, aesKey, blob.subarray(12)),
    ),
  );
}
