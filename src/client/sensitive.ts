import type { ClientEnvironment } from "./environment.ts";
import { encode, freezeValues, type Payload, type Values } from "./payload.ts";
import { REPError } from "./rep_error.ts";

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
  environment: ClientEnvironment,
): (key: string) => Promise<string> {
  let pending: Promise<Values> | undefined;
  return async (key) => {
    pending ??= decryptAll(payload, environment).catch((cause) => {
      pending = undefined;
      throw cause instanceof REPError
        ? cause
        : new REPError("Cannot decrypt the SENSITIVE variables", { cause });
    });
    const value = (await pending)[key];
    if (value === undefined) {
      throw new REPError(`Cannot find "${key}" among the SENSITIVE variables`);
    }
    return value;
  };
}

async function decryptAll(
  payload: Payload | undefined,
  environment: ClientEnvironment,
): Promise<Values> {
  const { sensitive, _meta } = payload ?? {};
  if (!sensitive || !_meta?.key_endpoint) return freezeValues({});
  const { subtle } = environment.crypto;
  if (!subtle) throw new REPError("Cannot decrypt without HTTPS or localhost");
  const rawKey = await requestKey(_meta.key_endpoint, environment);
  const key = await subtle.importKey("raw", rawKey, "AES-GCM", false, [
    "decrypt",
  ]);
  const blob = fromBase64(sensitive);
  const iv = blob.subarray(0, NONCE_BYTES);
  const algorithm = {
    name: "AES-GCM",
    iv,
    additionalData: encode(_meta.integrity),
  };
  const plaintext = await subtle.decrypt(
    algorithm,
    key,
    blob.subarray(NONCE_BYTES),
  );
  return freezeValues(await new Response(plaintext).json());
}

async function requestKey(
  path: string,
  environment: ClientEnvironment,
): Promise<Uint8Array<ArrayBuffer>> {
  const url = new URL(path, environment.location.origin).href;
  let response = await environment.fetch(url);
  if (response.status === 429) {
    const retryAfter = Number(response.headers.get("retry-after")) || 0; // the gateway sends no date
    const seconds = Math.min(retryAfter, LONGEST_PAUSE_S) +
      JITTER_S * environment.Math.random();
    environment.console.warn(
      `[REP] Waiting ${Math.ceil(seconds)} s for a session key`,
    );
    await new Promise<void>((resolve) =>
      environment.setTimeout(resolve, seconds * 1_000)
    );
    response = await environment.fetch(url);
  }
  const { status } = response;
  if (status !== 200) {
    const advice = status === 410 ? ", reload the page" : ""; // the key of the page has expired
    throw new REPError(`Cannot get the session key: ${status}${advice}`);
  }
  return fromBase64((await response.json()).key);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
