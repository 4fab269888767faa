import {
  createGateway,
  createLog,
  type Gateway,
  type GatewayOptions,
  memoryStore,
} from "@rep/gateway";

/** Where the gateway of a check is, for its clients. */
export const ORIGIN = "https://app.example.com";

/** A source that lost all its variables would be rejected, so that these stay. */
const HIDDEN = { REP_SENSITIVE_TOKEN: "t0ken", REP_SERVER_SECRET: "hidden" };

/** Variables of all three tiers. */
export const VARIABLES = { REP_PUBLIC_TITLE: "</script>", ...HIDDEN };

const PAGE =
  "<!doctype html><html><head><title>x</title></head><body>&amp;</body></html>";

/** What a browser sends from a page of the gateway's own origin. */
const SAME_ORIGIN = { headers: { "sec-fetch-site": "same-origin" } };

/** A gateway whose variables a check sets. */
export interface Subject {
  readonly gateway: Gateway;
  readonly lines: Record<string, unknown>[];
  /** Sends a request from an address. */
  ask(path: string, init?: RequestInit): Promise<Response>;
  /** Sends a request, and returns its status. */
  statusOf(path: string, init?: RequestInit): Promise<number>;
  /** Requests a session key from a page of the gateway's own origin. */
  requestKey(path?: string): Promise<Response>;
  /** Opens a stream of changes. */
  openStream(path?: string, init?: RequestInit): Promise<StreamReader>;
  /** Replaces the variables that are not {@linkcode HIDDEN}, and reloads. */
  set(variables: Record<string, string>): Promise<void>;
  /** Returns a page with the configuration. */
  page(headers?: HeadersInit, init?: ResponseInit): Promise<Response>;
  /** Returns what such a page contains. */
  configuration(): Promise<Configuration>;
}

/** Calls a function with a gateway, and closes it. */
export async function withGateway(
  options: GatewayOptions,
  use: (subject: Subject) => Promise<void>,
): Promise<void> {
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line));
  let variables: Record<string, string> = VARIABLES;
  const gateway = await createGateway({
    variables: () => variables,
    log: createLog({ write }),
    store: memoryStore(),
    ...options,
  });

  async function ask(path: string, init: RequestInit = {}): Promise<Response> {
    const remoteAddr = { transport: "tcp", hostname: "192.0.2.1" } as const;
    const request = new Request(ORIGIN + path, init);
    return await gateway.fetch(request, { remoteAddr });
  }

  async function page(
    headers: HeadersInit = {},
    init: ResponseInit = { headers: { "content-type": "text/html" } },
  ): Promise<Response> {
    const request = new Request(`${ORIGIN}/`, { headers });
    return await gateway.inject(new Response(PAGE, init), request);
  }

  const subject: Subject = {
    gateway,
    lines,
    ask,
    page,
    async statusOf(path, init) {
      return (await ask(path, init)).status;
    },
    requestKey: (path = "/rep/session-key") => ask(path, SAME_ORIGIN),
    async openStream(path = "/rep/changes", init) {
      return new StreamReader(await ask(path, init));
    },
    async set(replaced) {
      variables = { ...HIDDEN, ...replaced };
      await gateway.reload();
    },
    async configuration() {
      return await readConfiguration(await page());
    },
  };
  try {
    await use(subject);
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

async function readConfiguration(
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
      if (done) throw new Error(`expected ${pattern}, got ${this.#text}`);
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

  /** Returns the values of the first events. */
  async values(count: number): Promise<unknown[]> {
    const events = await this.events(count);
    return events.map(({ data }) => data.value);
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
