import type { Replica } from "./replica.ts";
import { sleep } from "./waiting.ts";

/** Between two looks at a replica's health and metrics. */
const LOOK_SECONDS = 0.5;
/** A replica that takes longer gives no answer. */
const ANSWER_MS = 2_000;
/** The metrics whose changes are signs; of others, only the sum would be. */
const METRICS =
  /^rep_(?:store_up|config_last_reload_success|rollout_active|session_keys_rejected_total|streams_rejected_total|store_errors_total).*/gm;

/** Something that an operator could have seen. */
export interface Sign {
  /** When, by `performance.now()`. */
  readonly at: number;
  /** The process. */
  readonly who: string;
  /** Where it was seen and what: "log rep.store.down", "health store_unavailable", "metric rep_store_up 0". */
  readonly text: string;
}

/** Collects what processes say about themselves: their logs, their health, their metrics. */
export class Watch {
  readonly signs: Sign[] = [];
  readonly #write: (text: string) => void;

  /** @param write Keeps a line about each sign, and each line that a process prints. */
  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  add(who: string, text: string): void {
    this.signs.push({ at: performance.now(), who, text });
    this.#write(`${who}: ${text}`);
  }

  /** Adds a line that a process has printed. */
  read(who: string, line: string): void {
    const msg = /"msg":"(rep\.[^"]+)"/.exec(line)?.[1];
    if (msg === "rep.session_key.issued") return;
    if (msg === undefined) return this.#write(`${who}: ${line}`);
    this.signs.push({ at: performance.now(), who, text: `log ${msg}` });
    this.#write(`${who}: ${line}`);
  }

  /** Asks a replica again and again, until the result is disposed of. */
  follow(replica: Replica): AsyncDisposable {
    const stopped = new AbortController();
    const following = this.#follow(replica, stopped.signal);
    return {
      async [Symbol.asyncDispose]() {
        stopped.abort();
        await following;
      },
    };
  }

  async #follow(replica: Replica, signal: AbortSignal): Promise<void> {
    const metrics = new Map<string, string>();
    let health = new Set<string>();
    while (!signal.aborted) {
      const now = await healthOf(replica);
      for (const word of now.difference(health)) {
        this.add(replica.name, `health ${word}`);
      }
      health = now;
      for (const [name, value] of await metricsOf(replica)) {
        const before = metrics.get(name);
        if (before !== undefined && before !== value) {
          this.add(replica.name, `metric ${name} ${value}`);
        }
        metrics.set(name, value);
      }
      await sleep(LOOK_SECONDS, signal).catch(() => {}); // the loop ends
    }
  }
}

/** The status in a health report, and its problems. */
export async function healthOf(replica: Replica): Promise<Set<string>> {
  const response = await ask(replica, "/rep/health");
  if (response === undefined) return new Set(["no answer"]);
  const { status, problems = [] } = JSON.parse(response);
  return new Set([status, ...problems.map(problemType)]);
}

function problemType(problem: string | { type: string }): string {
  return typeof problem === "string" ? problem : problem.type;
}

async function metricsOf(replica: Replica): Promise<Map<string, string>> {
  const text = await ask(replica, "/metrics") ?? "";
  const lines = text.match(METRICS) ?? [];
  return new Map(lines.map((line) => {
    const end = line.lastIndexOf(" ");
    return [line.slice(0, end), line.slice(end + 1)];
  }));
}

async function ask(
  { healthUrl }: Replica,
  path: string,
): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS);
    return await (await fetch(`${healthUrl}${path}`, { signal })).text();
  } catch {
    return undefined; // it is down, or silent
  }
}
