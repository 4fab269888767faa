import { canonicalJson, sriHash } from "../values/hash.ts";
import { type Payload, PROTOCOL_VERSION } from "./payload.ts";

/** The `<script>` element that is inserted into a page. */
export interface ConfigScript {
  /** The whole element. */
  readonly bytes: Uint8Array;
  /** Changes with the PUBLIC values. It is part of a page's `ETag`. */
  readonly revision: string;
  /** Whether it contains SENSITIVE values, so that a page with it must not be stored. */
  readonly isSecret: boolean;
}

/** Returns the config script for a page. */
export type GetConfigScript = () => Promise<ConfigScript>;

const encoder = new TextEncoder();

/**
 * Renders the element for a payload (REP-RFC-0001 §4.3). The hash covers the text of the element as it is in the
 * document, which is what the client reads, so `<` is escaped first.
 */
export async function renderConfigScript(
  payload: Payload,
): Promise<ConfigScript> {
  const text = escapeForScript(JSON.stringify(payload));
  const attributes =
    `type="application/json" data-rep-version="${PROTOCOL_VERSION}" data-rep-integrity="${await sriHash(
      text,
    )}"`;
  const publicValues = canonicalJson(new Map(Object.entries(payload.public)));
  const revision = await sriHash(
    `${publicValues}|${payload._meta.hot_reload === undefined}`,
  );
  return {
    bytes: encoder.encode(
      `<script id="__rep__" ${attributes}>${text}</script>`,
    ),
    revision: revision.replace(/^sha256-/, "").slice(0, 16),
    isSecret: payload.sensitive !== undefined,
  };
}

/**
 * Escapes JSON so that it cannot end the element or begin a comment (HTML standard §4.12.1.3). The result is ASCII, and
 * so the same in a page of any encoding.
 */
export function escapeForScript(json: string): string {
  return json.replace(
    /[<\u007f-\uffff]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
