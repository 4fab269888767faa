/** An attribute of a span, as OTLP encodes it in JSON. */
interface OtlpAttribute {
  readonly key: string;
  readonly value: {
    readonly stringValue?: string;
    readonly intValue?: string;
    /** Deno exports all numbers of JavaScript as these. */
    readonly doubleValue?: number;
  };
}

/** A span that was exported. */
export interface OtlpSpan {
  readonly name: string;
  readonly kind: number;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly status: { readonly code?: number };
  readonly attributes: readonly OtlpAttribute[];
}

/** A log record that was exported. */
export interface OtlpLogRecord {
  readonly severityText: string;
  readonly body: { readonly stringValue: string };
  readonly traceId: string;
  readonly spanId: string;
}

/** The kinds of spans in OTLP. */
export const SPAN_KIND = { server: 2, client: 3 } as const;

/** Receives what a process exports by OTLP over HTTP, as JSON. */
export class OtlpCollector implements AsyncDisposable {
  readonly spans: OtlpSpan[] = [];
  readonly logRecords: OtlpLogRecord[] = [];
  readonly #server: Deno.HttpServer<Deno.NetAddr>;

  constructor() {
    const address = { hostname: "127.0.0.1", port: 0, onListen() {} };
    this.#server = Deno.serve(address, (request) => this.#receive(request));
  }

  /** The environment of a process that exports to this collector. */
  get environment(): Record<string, string> {
    return {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${this.#server.addr.port}`,
    };
  }

  async #receive(request: Request): Promise<Response> {
    const message = await request.json();
    for (const { scopeSpans } of message.resourceSpans ?? []) {
      for (const { spans } of scopeSpans) this.spans.push(...spans);
    }
    for (const { scopeLogs } of message.resourceLogs ?? []) {
      for (const { logRecords } of scopeLogs) {
        this.logRecords.push(...logRecords);
      }
    }
    return Response.json({});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }
}

/** Returns the attributes of a span by name. */
export function attributesOf({ attributes }: OtlpSpan): Record<string, string> {
  const pairs = attributes.map(({ key, value }) => {
    const { stringValue, intValue, doubleValue } = value;
    return [key, stringValue ?? intValue ?? String(doubleValue ?? "")];
  });
  return Object.fromEntries(pairs);
}
