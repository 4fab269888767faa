import { canonicalJson, sriHash } from "../crypto/integrity.ts";
import { type Payload, PROTOCOL_VERSION } from "./payload.ts";

/** What is put into a page. */
export interface ConfigScript {
  /** The `<script>` element, whole. */
  readonly bytes: Uint8Array;
  /** Changes when the PUBLIC values do: part of a page's `ETag`. */
  readonly revision: string;
  /** Whether there are SENSITIVE values in it, so that nobody may keep the page. */
  readonly isSecret: boolean;
}

const encoder = new TextEncoder();

/**
 * Makes the element of a payload (REP-RFC-0001 §4.3). The hash is that of the text as it stands in the document, which is what
 * the client reads: so `<` is escaped first.
 */
export async function renderConfigScript(payload: Payload): Promise<ConfigScript> {
  const text = escapeForScript(JSON.stringify(payload));
  const attributes =
    `type="application/json" data-rep-version="${PROTOCOL_VERSION}" data-rep-integrity="${await sriHash(text)}"`;
  const publicValues = canonicalJson(new Map(Object.entries(payload.public)));
  const revision = await sriHash(`${publicValues}|${payload._meta.hot_reload === undefined}`);
  return {
    bytes: encoder.encode(`<script id="__rep__" ${attributes}>${text}</script>`),
    revision: revision.replace(/^sha256-/, "").slice(0, 16),
    isSecret: payload.sensitive !== undefined,
  };
}

/**
 * Writes JSON so that nothing in it can end the element or begin a comment (HTML standard §4.12.1.3), and in ASCII alone: so it
 * reads the same in a page of any encoding.
 */
export function escapeForScript(json: string): string {
  return json.replace(/[<\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
