import {
  type Browser,
  encode,
  freezeValues,
  type Payload,
  REPError,
  type Values,
} from "./page.ts";

/** The size of the nonce at the beginning of the blob (REP-RFC-0001 §8.2). */
const NONCE_BYTES = 12;

/** The longest pause before a second request for a key, in seconds: the window of the gateway's rate limit. */
const LONGEST_PAUSE_S = 60;
/** Added at random, so that pages that were rejected together do not come back together, in seconds. */
const JITTER_S = 5;

/**
 * Creates the function that returns the values of SENSITIVE variables. The first call decrypts all of them, with one
 * request for all concurrent callers; after a failure, the next call tries again.
 */
export function createSensitiveReader(
  payload: Payload | undefined,
  browser: Browser,
): (key: string) => Promise<string> {
  let pending: Promise<Values> | undefined;
  return async (key) => {
    pending ??= decryptAll(payload, browser).catch(fail);
    const value = (await pending)[key];
    if (value === undefined) {
      throw new REPError(`Cannot find "${key}" among the SENSITIVE variables`);
    }
    return value;
  };

  function fail(cause: unknown): never {
    pending = undefined;
    if (cause instanceof REPError) throw cause;
    throw new REPError("Cannot decrypt the SENSITIVE variables", { cause });
  }
}

async function decryptAll(
  payload: Payload | undefined,
  browser: Browser,
): Promise<Values> {
  const { sensitive, _meta } = payload ?? {};
  if (!sensitive || !_meta?.key_endpoint) return freezeValues({});
  const { subtle } = browser.crypto;
  if (!subtle) throw new REPError("Cannot decrypt without HTTPS or localhost");
  const rawKey = await requestKey(_meta.key_endpoint, browser);
  const key = await subtle.importKey("raw", rawKey, "AES-GCM", false, [
    "decrypt",
  ]);
  const blob = fromBase64(sensitive);
  const algorithm = {
    name: "AES-GCM",
    iv: blob.subarray(0, NONCE_BYTES),
    additionalData: encode(_meta.integrity),
  };
  const ciphertext = blob.subarray(NONCE_BYTES);
  const plaintext = await subtle.decrypt(algorithm, key, ciphertext);
  return freezeValues(await new Response(plaintext).json());
}

async function requestKey(
  path: string,
  browser: Browser,
): Promise<Uint8Array<ArrayBuffer>> {
  const url = new URL(path, browser.location.origin).href;
  let response = await browser.fetch(url);
  if (response.status === 429) {
    await pause(response.headers.get("retry-after"), browser);
    response = await browser.fetch(url);
  }
  const { status } = response;
  if (status !== 200) {
    const advice = status === 410 ? ", reload the page" : ""; // the key of the page has expired
    throw new REPError(`Cannot get the session key: ${status}${advice}`);
  }
  return fromBase64((await response.json()).key);
}

async function pause(
  retryAfter: string | null,
  browser: Browser,
): Promise<void> {
  const asked = Number(retryAfter) || 0; // the gateway sends no date
  const jitter = JITTER_S * browser.Math.random();
  const seconds = Math.min(asked, LONGEST_PAUSE_S) + jitter;
  browser.console.warn(
    `[REP] Waiting ${Math.ceil(seconds)} s for a session key`,
  );
  await new Promise<void>((resolve) => {
    browser.setTimeout(resolve, seconds * 1_000);
  });
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
