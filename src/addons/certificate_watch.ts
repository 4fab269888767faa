import type { Addition } from "../core/addon.ts";
import type { HealthProblem } from "../core/endpoints/health.ts";
import { type Log, logTaskError } from "../core/observe/log.ts";
import type { Metrics } from "../core/observe/metrics.ts";
import { type Clock, every } from "../core/values/clock.ts";

/** Options of {@linkcode CertificateWatch}. */
interface CertificateWatchOptions {
  /** Returns the end of the certificate in use, in seconds since the Unix epoch; `undefined` without one. */
  readonly notAfter: () => number | undefined;
  /** Returns why a newer certificate was rejected; `undefined` unless the last one was. */
  readonly rejection: () => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** How long before its end a certificate causes a warning. */
const EXPIRING_SECONDS = 7 * 86_400;

/** How often to check the end of the certificate. */
const CHECK_MS = 60_000;

/** Knows whether the TLS certificate ends soon, and whether its renewal failed. */
export class CertificateWatch {
  readonly #options: CertificateWatchOptions;
  /** What was logged last. */
  #logged: string | undefined;

  constructor(options: CertificateWatchOptions) {
    this.#options = options;
    options.metrics.observe(
      "rep.tls.not_after_timestamp",
      options.notAfter,
    );
  }

  /** The end of the certificate, in seconds since the Unix epoch; `undefined` without one. */
  get notAfter(): number | undefined {
    return this.#options.notAfter();
  }

  /** Why a newer certificate was rejected, so that this one is still in use; `undefined` unless the last one was. */
  get rejection(): string | undefined {
    return this.#options.rejection();
  }

  /** Whether clients reject the certificate because it has ended. */
  get hasEnded(): boolean {
    return this.#secondsLeft() <= 0;
  }

  /** What is wrong with the certificate, for the health report. */
  get problems(): readonly HealthProblem[] {
    const problems: HealthProblem[] = [];
    if (this.rejection !== undefined) problems.push("certificate_rejected");
    if (this.hasEnded) problems.push("certificate_ended");
    return problems;
  }

  /** Checks the certificate, now and from time to time. */
  readonly addon = (): Addition => {
    const { clock, log } = this.#options;
    this.check();
    const onError = logTaskError(log, "certificate");
    return { close: every(CHECK_MS, () => this.check(), { clock, onError }) };
  };

  /** Logs once for each certificate that it ends soon, and once that it has ended. */
  check(): void {
    if (this.#secondsLeft() > EXPIRING_SECONDS) return;
    const state = this.hasEnded
      ? "has ended, and clients reject it"
      : "ends within 7 days";
    const notAfter = this.notAfter ?? 0;
    const message = `${notAfter} ${state}`;
    if (message === this.#logged) return;
    this.#logged = message;
    const level = this.hasEnded ? "error" : "warn";
    this.#options.log[level]("rep.tls.expiring", {
      not_after: new Date(1_000 * notAfter).toISOString(),
      detail:
        `the certificate ${state}: renew it, replace its files, and reload (SIGHUP)`,
    });
  }

  #secondsLeft(): number {
    return (this.notAfter ?? Infinity) - this.#options.clock.now() / 1_000;
  }
}
