/**
 * What REP asks of a gateway, a page and a client, in our own words, by section of REP-RFC-0001; `S` stands for REP's
 * security model, `R` for a goal of §1.3. §11 repeats other sections: only what it adds has an entry.
 *
 * Those that can be seen from outside have a check of the same id, which asks any gateway.
 */
export const VISIBLE_CLAUSES = {
  "3.1": "PUBLIC values readable, SENSITIVE encrypted, SERVER nowhere",
  "3.2": "The prefix alone decides; names lose it",
  "3.2.4": "Same name in two tiers: no start",
  "3.3": "Warns of PUBLIC secrets, without showing or reclassifying them",
  "3.3-strict": "`--strict`: no start then",
  "4.1-files": "Compresses files, with caching headers",
  "4.1-proxy": "Inserts into an upstream's pages",
  "4.2.1": "Env file, below the environment",
  "4.2.5": "Violated manifest: no start",
  "4.2.14": "Structured log (R9) with counts",
  "4.3-head": "Inserts before `</head>`, changes nothing else",
  "4.3-html": "Finds tags as HTML does",
  "4.3-else": "Else after `<head>`, else first",
  "4.3-element": "Inert element with id, version, hash",
  "4.3-all": "HTML that scripts fetch, too",
  "4.3-cache": "SENSITIVE pages from no cache",
  "4.4-key": "A key of 32 bytes, for 30 s",
  "4.4-ttl": "Never longer, whatever is set",
  "4.4-origin": "For configured origins; if none, without `Origin`",
  "4.4-own": "If some, never without `Origin`",
  "4.4-audit": "Logs each key",
  "4.4-rate": "Ten a minute for each client",
  "4.4-client": "Invented addresses are no clients",
  "4.4-store": "No cache keeps a key",
  "4.4-cors": "CORS for configured origins only",
  "4.5": "Health report",
  "4.6-update": "PUBLIC changes as events",
  "4.6-delete": "Deletions without a value",
  "4.6-modes": "By signal, watch and poll",
  "6.2": "Types of the manifest",
  "7": "Flags before environment before manifest",
  "8.1": "Schema of the payload",
  "8.2": "AES-256-GCM, bound to the token",
  "8.2-restart": "Another key after a restart",
  "8.3": "HMAC over the PUBLIC values",
  "8.3-blob": "… and the encrypted ones",
  "11.1.9": "Single-use keys",
  "S2.1": "Declared tiers are checked",
  "S2.3": "No key for a foreign `Referer`",
  "S2.6": "Health on its own port",
  "S4.3": "Audit events",
  "S4.3-payload": "One for each payload",
} as const;

/** What no request and no log line shows. */
export const HIDDEN_CLAUSES = {
  "4.1-http2": "HTTP/2",
  "4.2.13": "Accepts connections when ready",
  "4.6-client": "Client copes without a stream",
  "5.1": "Client below 2 KB with gzip",
  "5.1-alone": "Without dependencies (R5)",
  "5.2": "Its functions",
  "5.2-secure": "`getSecure()` asks once, asynchronously",
  "5.3.1": "Values at once, without a request",
  "5.3.2": "No payload, no values",
  "5.3.4": "Verifies at once, reports failures",
  "5.3.6": "Frozen values",
  "5.3.7": "A stream when subscribed",
  "7.1": "Flags and defaults",
  "8.2.1": "Random keys (also §8.3), never stored",
  "9.2": "`FROM scratch`, below 5 MB (R6)",
  "11.3": "Types, adapters, codemod (optional)",
  "12.5": "Works with a CSP",
  "R9-metrics": "Metrics",
  "S2.5-code": "No third-party code",
  "S2.5-files": "Writes no files; no I/O for keys (S2.6)",
  "S2.5-shell": "Starts no process",
  "S4.1": "Runs unprivileged",
} as const;

/** The id of a clause that a check asks for. */
export type VisibleClause = keyof typeof VISIBLE_CLAUSES;
