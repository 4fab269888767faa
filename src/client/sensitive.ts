import type { Payload } from "../core/pages/payload.ts";
import {
  type Browser,
  encode,
  freezeValues,
  pause,
  REPError,
  type Values,
} from "./page.ts";

/**
 * Creates the function that returns the values of SENSITIVE variables. The first call decrypts all of them, and concurrent
 * calls share its request. After a failure, the next call tries again.
 *
 * @param payload A promise while the browser may not have parsed it yet.
 */
export function createSensitiveReader(
  payload: Payload | undefined | Promise<Payload | undefined>,
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
    throw new REPError("Cannot get the SENSITIVE variables", { cause });
  }
}

async function decryptAll(
  payload: Payload | undefined | Promise<Payload | undefined>,
  browser: Browser,
): Promise<Values> {
  const nonceBytes = 12; // the nonce precedes the ciphertext (REP-RFC-0001 §8.2)
  const { sensitive, _meta } = await payload ?? {};
  if (!sensitive || !_meta?.key_endpoint) return freezeValues({});
  const { subtle } = browser.crypto;
  if (!subtle) throw new REPError("Cannot decrypt without HTTPS or localhost");
  const rawKey = await requestKey(_meta.key_endpoint, browser);
  const key = await subtle.importKey("raw", rawKey, "AES-GCM", false, [
    "decrypt",
  ]);
  const blob = fromBase64(sensitive);
  const plaintext = await subtle.decrypt(
    {
      name: "AES-GCM",
      iv: blob.subarray(0, nonceBytes),
      additionalData: encode(_meta.integrity),
    },
    key,
    blob.subarray(nonceBytes),
  );
  return freezeValues(await new Response(plaintext).json());
}

async function requestKey(
  path: string,
  browser: Browser,
): Promise<Uint8Array<ArrayBuffer>> {
  const url = new URL(path, browser.location.origin).href;
  let response = await browser.fetch(url);
  if (response.status === 429) {
    await waitForKey(response.headers.get("retry-after"), browser);
    response = await browser.fetch(url);
  }
  const {
    key,
    detail = `Cannot get the session key: ${response.status}`, // if the gateway does not say why
  } = await response.json().catch(() => response);
  if (!key) throw new REPError(detail);
  return fromBase64(key);
}

async function waitForKey(
  retryAfter: string | null,
  browser: Browser,
): Promise<void> {
  const longestPauseS = 60; // the window of the gateway's rate limit
  const jitterS = 5; // so that pages that were rejected together do not retry together
  const asked = Math.min(Number(retryAfter) || 0, longestPauseS); // the gateway sends no date
  const seconds = asked + jitterS * browser.Math.random();
  browser.console.warn(
    `[REP] Waiting ${Math.ceil(seconds)} s for a session key`,
  );
  await pause(browser, seconds * 1_000);
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}
