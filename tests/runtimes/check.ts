import { type Subject, withGateway } from "./fixtures.ts";
import type { GatewayOptions } from "@rep/gateway";

/** One statement about the module, which holds in every runtime that is not excepted. */
export interface Check {
  /** The statement. */
  readonly name: string;
  /** Throws if it does not hold. */
  readonly run: () => Promise<void>;
  /** Why it does not hold in workers, which have neither files, servers nor an environment; empty if it does. */
  readonly notInWorkers: string;
}

/** What a check has found. */
export interface Result {
  readonly name: string;
  /** `null` if the statement holds. */
  readonly error: string | null;
}

/** All checks, in the order in which they are registered. */
export const CHECKS: Check[] = [];

/** Registers a check. */
export function check(
  name: string,
  run: () => Promise<void>,
  notInWorkers = "",
): void {
  CHECKS.push({ name, run, notInWorkers });
}

/** Registers a check of a gateway with these options. */
export function checkGateway(
  name: string,
  options: GatewayOptions,
  use: (subject: Subject) => Promise<void>,
  notInWorkers = "",
): void {
  check(name, () => withGateway(options, use), notInWorkers);
}

/** Runs a check. */
export async function resultOf({ name, run }: Check): Promise<Result> {
  try {
    await run();
    return { name, error: null };
  } catch (error) {
    return { name, error: (error as Error).stack ?? String(error) };
  }
}

/** Compares what JSON can express, since the assertions of one runtime do not run in all others. */
export function equal(actual: unknown, expected: unknown): void {
  const [is, shouldBe] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (is !== shouldBe) throw new Error(`expected ${shouldBe}, got ${is}`);
}

/** Returns the message of what a promise rejects with. */
export async function messageOfRejection(
  work: Promise<unknown>,
): Promise<string> {
  return await work.then(() => "nothing", (error: Error) => error.message);
}
