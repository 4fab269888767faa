import { MAX_PUBLIC_BYTES, type Variable } from "./tiers.ts";

/** A PUBLIC variable whose value looks like a secret (REP-RFC-0001 §3.3). */
export interface GuardrailWarning extends Detection {
  readonly name: string;
}

/** Why a text looks like a secret. */
export interface Detection {
  readonly detection: "known_format" | "high_entropy" | "length_anomaly";
  /** The reason, without the value. */
  readonly detail: string;
}

/** Documented formats of secrets (REP-RFC-0001 §3.3), the most reliable detection. */
const SECRET_FORMATS: readonly (readonly [RegExp, string])[] = [
  [/\b(AKIA|ASIA)[0-9A-Z]{16}\b/, "an AWS access key"],
  [/\beyJ[\w-]{8,}\.eyJ?[\w-]*\./, "a JSON Web Token"],
  [/\b(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{16,}/, "a GitHub token"],
  [/\bgithub_pat_\w{16,}/, "a GitHub token"],
  [/\bglpat-[\w-]{16,}/, "a GitLab token"],
  [/\b(sk|rk)_(live|test)_[A-Za-z0-9]{10,}/, "a Stripe secret key"],
  [/\bpk_live_[A-Za-z0-9]{10,}/, "a Stripe live key"],
  [/\b[st]k\.eyJ[\w-]+\.[\w-]{16,}/, "a Mapbox secret token"],
  [/\bsb_secret_\w{16,}/, "a Supabase secret key"],
  [/\bwhsec_[A-Za-z0-9+/]{16,}/, "a webhook's signing secret"],
  [
    /\bsk-(?=[\w-]{0,200}\d)(?=[\w-]{0,200}[A-Z]|[a-z0-9]{32})[\w-]{20,}/,
    "an API key of an AI service",
  ],
  [/\bxox[abeoprs]-[\w-]{10,}/, "a Slack token"],
  [/\bhooks\.slack\.com\/(services|workflows)\/\w/, "a Slack webhook"],
  [/\bdiscord(app)?\.com\/api\/webhooks\/\d/, "a Discord webhook"],
  [/\bSG\.[\w-]{16,}\.[\w-]{16,}/, "a SendGrid key"],
  [/\bAIza[\w-]{35}/, "a Google API key"],
  [/\bnpm_[A-Za-z0-9]{36}/, "an npm token"],
  [
    /(?<![\w-])((ATATT3|CFPAT-|dckr_pat_|dp\.[ps]t\.|figd_|GOCSPX-|pypi-AgE|sntry[su]_)[\w.-]{20,}|(do[opr]_v1_|glsa_|gsk_|hf_|lin_api_|nfp_|NRAK-|ntn_|phx_|PMAK-|pplx-|r8_|sbp_|shp(at|ca|pa|ss)_|xai-)(?=[a-z]{0,200}[A-Z\d])[A-Za-z\d]{20,}|dapi[a-f\d]{32})/,
    "a token for a service's API",
  ],
  [/-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----/, "a private key"],
  [/\bAGE-SECRET-KEY-1[0-9A-Z]{20,}/, "an age key"],
  [
    /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s:@/?#]*:[^\s@/?#]+@/i,
    "a URL with a password in it",
  ],
  [/[?&](sig|client_secret|password)=[^\s&]{8,}/i, "a URL with a secret in it"],
];

/**
 * Long or random text that is meant to be public: links, data URLs, public PEM blocks, integrity hashes (SRI, and those
 * of REP's payloads), client IDs of Google, and public keys of Mapbox, Stripe and PostHog.
 */
const HARMLESS = new RegExp(
  [
    /\b[a-z][a-z0-9+.-]{0,20}:\/\/[^\s"'<>,;]+/,
    /\bdata:\w+\/[^\s"'<>)]+/,
    /-----BEGIN [A-Z ]+-----.*?-----END [A-Z ]+-----/,
    /\b(hmac-)?sha(256|384|512)[-:][A-Za-z0-9+/]+=*/,
    /\b[\w-]{1,100}\.apps\.googleusercontent\.com\b/,
    /\bpk\.eyJ[\w-]+\.[\w-]+/,
    /\bpk_test_\w+/,
    /\bphc_\w+/,
  ].map(({ source }) => source).join("|"),
  "gis",
);

/**
 * Formats of secrets that are made to be in pages, and whose owners restrict what they permit: keys of Google, Stripe and
 * Mapbox, and Supabase's JSON Web Token with the role `anon`, which base64 encodes in three ways.
 */
const PUBLIC_KEY =
  /\bAIza[\w-]{35}|\bpk_(?:live|test)_\w+|\bpk\.eyJ[\w.-]+|\beyJ[\w-]+\.[\w-]*(?:InJvbGUiOiJhbm9uI|Jyb2xlIjoiYW5vbi|icm9sZSI6ImFub24i)[\w-]*\.[\w-]*/g;

/** Removes keys that are made to be public from a text. */
export function withoutPublicKeys(text: string): string {
  return text.replace(PUBLIC_KEY, "");
}

/** REP-RFC-0001 §3.3. Only text of 23 or more characters can exceed it. */
const MAX_ENTROPY_BITS = 4.5;
/** REP-RFC-0001 §3.3. */
const MAX_ENCODED_LENGTH = 64;

/**
 * Finds PUBLIC values that look like secrets. A variable gets at most one warning.
 *
 * @param declarations The declarations of the manifest, by name.
 */
export function scanForSecrets(
  variables: readonly Variable[],
  declarations: ReadonlyMap<string, { readonly type: string }>,
): GuardrailWarning[] {
  const warnings: GuardrailWarning[] = [];
  for (const { name, tier, value } of variables) {
    if (tier !== "public") continue;
    const isList = declarations.get(name)?.type === "csv";
    const found = isList ? detectInList(value) : detectSecret(value);
    if (found !== undefined) warnings.push({ name, ...found });
  }
  return warnings;
}

/** Scans each element alone (REP-RFC-0001 §3.3): `redis://cache:6379,me@example.com` is no URL with a password. */
function detectInList(value: string): Detection | undefined {
  for (const element of value.slice(0, MAX_PUBLIC_BYTES).split(",")) {
    const found = detectSecret(element.trim());
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the reason of a warning, and what to do if the value is no secret. */
export function describeWarning({ name, detail }: GuardrailWarning): string {
  return `${detail}; if it is meant to be public, add ${name} to --accept-public (in code: acceptPublic)`;
}

/**
 * Returns why a value looks like a secret, if it does: the most reliable reason. It scans only as much of the value as
 * can be published, since regular expressions take seconds or run out of stack on a value of megabytes.
 */
export function detectSecret(value: string): Detection | undefined {
  const text = value.slice(0, MAX_PUBLIC_BYTES);
  const tokens = tokenize(text);
  return detectKnownFormat(text) ?? lengthAnomaly(tokens) ??
    highEntropy(tokens);
}

/** Returns which documented format of a secret a text contains, if any. */
function detectKnownFormat(text: string): Detection | undefined {
  for (const [pattern, format] of SECRET_FORMATS) {
    if (!pattern.test(text)) continue;
    const detail = `the value looks like ${format}`;
    return { detection: "known_format", detail };
  }
  return undefined;
}

/** No known format is shorter. */
const MIN_SECRET_LENGTH = 10;
/** Minified code is searched in windows: a regular expression needs more time and stack the longer the text is. */
const WINDOW = 16_384;
const OVERLAP = 1_024;

/** Searches code of any length for a known format of a secret. */
export function detectInCode(piece: string): Detection | undefined {
  if (piece.length < MIN_SECRET_LENGTH) return undefined;
  for (let start = 0; start < piece.length; start += WINDOW) {
    const window = piece.slice(start, start + WINDOW + OVERLAP);
    const detection = detectKnownFormat(window);
    if (detection) return detection;
  }
  return undefined;
}

/**
 * Splits a value into the parts that could be secrets: printable ASCII without whitespace that does not consist of
 * words and numbers. Without splitting, prose, lists and JSON would have a high entropy, since they contain many
 * different characters.
 */
function tokenize(value: string): string[] {
  return value.replace(HARMLESS, " ").split(/[\s,"]+|[;&](?=\w+=)/)
    .map((piece) => piece.replace(/^[A-Za-z][\w.-]*[=:](?=[^=])/, "")) // the name in `name=value`
    .filter((piece) => /^[\x21-\x7e]+$/.test(piece) && !isWords(piece));
}

/** Matches `checkout`, `Checkout`, `newCheckout2024`, `V2`, `20241121` and `1920x1080`. */
const WORD =
  /^(?:[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+)?\d{0,4}$|^\d+(?:[a-z]{1,2}\d*)?$/;

/** Returns whether text consists of words and numbers, such as `new-checkout-2024`, `com/example/app_v2` or `a|b`. */
function isWords(text: string): boolean {
  return text.split(/[^A-Za-z0-9]+/).every((word) => WORD.test(word));
}

function lengthAnomaly(tokens: readonly string[]): Detection | undefined {
  const encoded = tokens.find((token) =>
    token.length > MAX_ENCODED_LENGTH && looksEncoded(token)
  );
  if (encoded === undefined) return undefined;
  const detail =
    `the value has ${encoded.length} characters of what looks like encoded data`;
  return { detection: "length_anomaly", detail };
}

/** Returns whether a token looks like hex, base64 or base64url. */
function looksEncoded(token: string): boolean {
  return /^(?=.*\d)(?=.*[A-Za-z])[\w+/-]+={0,2}$/.test(token);
}

function highEntropy(tokens: readonly string[]): Detection | undefined {
  const isHigh = (bits: number) => bits > MAX_ENTROPY_BITS;
  const bits = tokens.map(shannonEntropy).find(isHigh)?.toFixed(2);
  if (bits === undefined) return undefined;
  const detail = `the value has ${bits} bits of entropy per character`;
  return { detection: "high_entropy", detail };
}

/** Returns the Shannon entropy of a text, in bits per character. */
export function shannonEntropy(text: string): number {
  const characters = [...text];
  const groups = Map.groupBy(characters, (character) => character);
  let entropy = 0;
  for (const { length } of groups.values()) {
    const share = length / characters.length;
    entropy -= share * Math.log2(share);
  }
  return entropy;
}
