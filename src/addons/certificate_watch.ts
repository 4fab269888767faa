import type { Addon } from "../core/addon.ts";
import { logTaskError } from "../core/observe/log.ts";
import type { Metrics } from "../core/observe/metrics.ts";
import type { Problems } from "../core/observe/problems.ts";
import { every } from "../core/values/clock.ts";
import { formatTime } from "../core/values/units.ts";

/** The TLS certificate of this process. */
export interface Certificate {
  /** Returns the end of the certificate in use, in seconds since the Unix epoch; `undefined` without one. */
  readonly notAfter: () => number | undefined;
  /** Returns why a newer certificate was rejected; `undefined` unless the last one was. */
  readonly rejection: () => CertificateRejection | undefined;
}

/** Why certificates are rejected. */
export interface CertificateRejection {
  /** Why the last one was. */
  readonly detail: string;
  /** When the first one was, in milliseconds since the Unix epoch. */
  readonly since: number;
}

/** How long before its end a certificate causes a warning. */
const EXPIRING_SECONDS = 7 * 86_400;

/** How often to check the end of the certificate. */
const CHECK_MS = 60_000;

/** Returns the add-on that says whether the TLS certificate ends soon, and whether its renewal failed. */
export function certificateWatch(
  { notAfter, rejection }: Certificate,
  metrics: Metrics,
): Addon {
  return ({ clock, log }) => {
    /** What was logged last. */
    let logged: string | undefined;
    const startedAt = clock.now();

    function secondsLeft(): number {
      return (notAfter() ?? Infinity) - clock.now() / 1_000;
    }

    function problems(): Problems {
      const endedAt = Math.max(startedAt, 1_000 * (notAfter() ?? 0));
      return {
        certificate_rejected: rejection()?.since,
        certificate_ended: secondsLeft() <= 0 ? endedAt : undefined,
      };
    }

    /** Logs once for each certificate that it ends soon, and once that it has ended. */
    function check(): void {
      const left = secondsLeft();
      if (left > EXPIRING_SECONDS) return;
      const hasEnded = left <= 0;
      const state = hasEnded
        ? "has ended, and clients reject it"
        : "ends within 7 days";
      const not_after = formatTime(1_000 * (notAfter() ?? 0));
      const message = `${not_after} ${state}`;
      if (message === logged) return;
      logged = message;
      log[hasEnded ? "error" : "warn"]("rep.tls.expiring", {
        not_after,
        detail:
          `the certificate ${state}: renew it, replace its files, and reload (SIGHUP)`,
      });
    }

    metrics.observe("rep.tls.not_after_timestamp", notAfter);
    check();
    const onError = logTaskError(log, "certificate");
    return { problems, close: every(CHECK_MS, check, { clock, onError }) };
  };
}
