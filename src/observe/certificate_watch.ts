import type { Clock } from "../values/clock.ts";
import type { Log } from "./log.ts";
import type { Metrics } from "./metrics.ts";

/** Options of {@linkcode CertificateWatch}. */
interface CertificateWatchOptions {
  /** Returns the end of the certificate in use, in seconds since the Unix epoch; `undefined` without one. */
  readonly notAfter: () => number | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** How early the end of a certificate is worth a warning. */
const EXPIRING_SECONDS = 7 * 86_400;

/** Watches the end of the TLS certificate. */
export class CertificateWatch {
  readonly #options: CertificateWatchOptions;
  /** What the last warning was about. */
  #warned: string | undefined;

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

  /** Whether clients reject the certificate, since its end has passed. */
  get hasEnded(): boolean {
    return this.#secondsLeft() <= 0;
  }

  /** Logs once of each certificate that it ends soon, and once that it has ended. */
  check(): void {
    const seconds = this.#secondsLeft();
    if (seconds > EXPIRING_SECONDS) return;
    const state = seconds > 0
      ? "ends within 7 days"
      : "has ended, and clients reject it";
    const notAfter = this.notAfter ?? 0;
    const warning = `${notAfter} ${state}`;
    if (warning === this.#warned) return;
    this.#warned = warning;
    this.#options.log.warn("rep.tls.expiring", {
      not_after: new Date(1_000 * notAfter).toISOString(),
      detail:
        `the certificate ${state}: renew it, replace its files, and reload (SIGHUP)`,
    });
  }

  #secondsLeft(): number {
    return (this.notAfter ?? Infinity) - this.#options.clock.now() / 1_000;
  }
}
