import type { Variable } from "./tier.ts";

/** A PUBLIC variable whose value looks like a secret. */
export interface GuardrailWarning {
  readonly name: string;
  readonly detection: "known_format" | "high_entropy" | "length_anomaly";
  /** Why, in words that do not hold the value. */
  readonly detail: string;
}

/** Formats whose owners document them, by what a value of theirs looks like (REP-RFC-0001 §3.3). */
const SECRET_FORMATS: readonly (readonly [RegExp, string])[] = [
  [/\b(AKIA|ASIA)[0-9A-Z]{16}\b/, "an AWS access key"],
  [/\beyJ[\w-]{8,}\.eyJ?[\w-]*\.[\w-]*/, "a JSON Web Token"],
  [/\b(ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{16,}/, "a GitHub token"],
  [/\bgithub_pat_\w{16,}/, "a GitHub token"],
  [/\bglpat-[\w-]{16,}/, "a GitLab token"],
  [/\b(sk|rk)_(live|test)_[A-Za-z0-9]{10,}/, "a Stripe secret key"],
  [/\bpk_live_[A-Za-z0-9]{10,}/, "a Stripe live key"],
  [/\bsk-(proj-|ant-)?[\w-]{20,}/, "an API key of an AI service"],
  [/\bxox[abeoprs]-[\w-]{10,}/, "a Slack token"],
  [/\bSG\.[\w-]{16,}\.[\w-]{16,}/, "a SendGrid key"],
  [/\bAIza[\w-]{35}/, "a Google API key"],
  [/\bnpm_[A-Za-z0-9]{36}/, "an npm token"],
  [/-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----/, "a private key"],
  [/\bAGE-SECRET-KEY-1[0-9A-Z]{20,}/, "an age key"],
  [/\b[a-z][a-z0-9+.-]*:\/\/[^\s:@/]*:[^\s@/]+@/i, "a URL with a password in it"],
];

/** REP-RFC-0001 §3.3. */
const MAX_ENTROPY_BITS = 4.5;
/** A shorter text's entropy says little: sixteen different letters have 4 bits each, whatever they spell. */
const MIN_ENTROPY_LENGTH = 20;
/** REP-RFC-0001 §3.3. */
const MAX_ENCODED_LENGTH = 64;

/** Looks for values that are PUBLIC by mistake. A variable has at most one warning, of the surest kind. */
export function scanForSecrets(variables: readonly Variable[]): GuardrailWarning[] {
  return variables
    .filter(({ tier }) => tier === "public")
    .flatMap(({ name, value }) =>
      knownFormat(name, value) ?? lengthAnomaly(name, value) ?? highEntropy(name, value) ?? []
    );
}

function knownFormat(name: string, value: string): GuardrailWarning | undefined {
  const format = SECRET_FORMATS.find(([pattern]) => pattern.test(value));
  return format && { name, detection: "known_format", detail: `the value looks like ${format[1]}` };
}

function lengthAnomaly(name: string, value: string): GuardrailWarning | undefined {
  const isEncoded = /^[A-Za-z0-9+/_-]+={0,2}$/.test(value) && /\d/.test(value) && /[A-Za-z]/.test(value);
  if (value.length <= MAX_ENCODED_LENGTH || !isEncoded) return undefined;
  const detail = `the value is ${value.length} characters of what looks like encoded data`;
  return { name, detection: "length_anomaly", detail };
}

/** Prose, lists and JSON have high entropy too, but also white space, commas or quotes; a token has not. */
function highEntropy(name: string, value: string): GuardrailWarning | undefined {
  if (value.length < MIN_ENTROPY_LENGTH || !/^[\x21-\x7e]+$/.test(value) || /[,"]/.test(value)) return undefined;
  if (URL.canParse(value)) return undefined;
  const bits = shannonEntropy(value);
  if (bits <= MAX_ENTROPY_BITS) return undefined;
  return { name, detection: "high_entropy", detail: `the value has ${bits.toFixed(2)} bits of entropy per character` };
}

/** Shannon's entropy of a text, in bits per character. */
export function shannonEntropy(text: string): number {
  const characters = [...text];
  const counts = Map.groupBy(characters, (character) => character).values();
  return counts.reduce((sum, { length }) => {
    const share = length / characters.length;
    return sum - share * Math.log2(share);
  }, 0);
}
