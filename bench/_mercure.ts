import { join } from "@std/path";
import { findFreePort } from "../tools/free_port.ts";
import { SubjectProcess } from "./_subject_process.ts";

const TOPIC = "https://example.com/topic";
/** HMAC-SHA256 keys have at least 32 bytes (RFC 7518 §3.2). */
const SECRET = "a key for measurements on one machine";

/** A mercure hub (https://mercure.rocks) with its Bolt transport. */
export class Mercure {
  /** The path of a stream. */
  static readonly PATH = `/.well-known/mercure?topic=${
    encodeURIComponent(TOPIC)
  }`;
  readonly process: SubjectProcess;
  readonly #token: string;
  #count = 0;

  private constructor(process: SubjectProcess, token: string) {
    this.process = process;
    this.#token = token;
  }

  /** @param directory For its database. */
  static async start(program: string, directory: string): Promise<Mercure> {
    const port = findFreePort();
    const env = {
      ADDR: `127.0.0.1:${port}`,
      JWT_KEY: SECRET,
      ALLOW_ANONYMOUS: "1",
      TRANSPORT_URL: `bolt://${join(directory, "mercure.db")}`,
      LOG_LEVEL: "error",
    };
    const process = await SubjectProcess.start({
      program,
      args: [],
      env,
      port,
      readyPath: "/healthz",
    });
    return new Mercure(process, await publisherToken());
  }

  /** Publishes an event, and waits until the hub has accepted it. */
  async publish(): Promise<void> {
    const body = new URLSearchParams({
      topic: TOPIC,
      type: "update",
      data: `value ${++this.#count}`,
    });
    const url = `http://127.0.0.1:${this.process.port}/.well-known/mercure`;
    const headers = { authorization: `Bearer ${this.#token}` };
    const response = await fetch(url, { method: "POST", body, headers });
    await response.body?.cancel();
    if (!response.ok) {
      throw new Error(
        `Cannot publish to mercure: expected status 200, got ${response.status}`,
      );
    }
  }
}

/** Returns a JSON Web Token that may publish to all topics. */
async function publisherToken(): Promise<string> {
  const parts = [{ alg: "HS256", typ: "JWT" }, { mercure: { publish: ["*"] } }];
  const text = parts.map((part) => encode(encoder.encode(JSON.stringify(part))))
    .join(".");
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey(
    "raw",
    encoder.encode(SECRET),
    algorithm,
    false,
    ["sign"],
  );
  const signature = await crypto.subtle.sign("HMAC", key, encoder.encode(text));
  return `${text}.${encode(new Uint8Array(signature))}`;
}

function encode(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

const encoder = new TextEncoder();
