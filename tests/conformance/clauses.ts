/**
 * What REP asks of a gateway, a page and a client, in our own words, by section of REP-RFC-0001; `S` stands for REP's
 * security model, `R` for a goal of §1.3. §11 repeats other sections: only what it adds has an entry.
 *
 * Those that can be seen from outside have a check of the same id, which asks any gateway.
 */
export const VISIBLE_CLAUSES = {
  "3.1":
    "Pages contain PUBLIC values as text and SENSITIVE values encrypted; no response contains SERVER values",
  "3.2": "Only the prefix decides the tier; pages contain names without it",
  "3.2.4": "Refuses to start if two tiers contain the same name",
  "3.3":
    "Warns about PUBLIC values that look like secrets, without showing or reclassifying them",
  "3.3-strict":
    "With `--strict`, refuses to start if a PUBLIC value looks like a secret",
  "3.3-csv":
    "Scans a PUBLIC value of type `csv` element by element, each one trimmed",
  "3.3-whole": "Scans a PUBLIC value of any other type as a whole",
  "4.1-files": "Compresses files, and sends headers for caches with them",
  "4.1-proxy": "Inserts the element into the pages of an upstream",
  "4.2.1": "Reads an env file; the environment takes precedence",
  "4.2.5": "Refuses to start if variables violate the manifest",
  "4.2.14":
    "Writes a structured log (R9) with the number of variables in each tier",
  "4.3-head": "Inserts the element before `</head>`, and changes nothing else",
  "4.3-html": "Finds tags as HTML parsers do",
  "4.3-else":
    "Inserts the element after `<head>` if there is no `</head>`, and at the start of the page if there is neither",
  "4.3-element": "The element is inert, and has REP's id, version and hash",
  "4.3-all":
    "Inserts the element into all HTML, including HTML that a script requests",
  "4.3-cache": "Caches never return an old page with SENSITIVE values",
  "4.4-key":
    "Issues a session key of 32 bytes, which a client may use for at most 30 s",
  "4.4-ttl": "No setting lets a client use a key for more than 30 s",
  "4.4-origin":
    "Issues keys to configured origins; if none is configured, to requests without `Origin`",
  "4.4-own":
    "If origins are configured, issues no keys to requests without `Origin`",
  "4.4-audit": "Logs each issued key",
  "4.4-rate": "Issues at most ten keys a minute to a client",
  "4.4-client":
    "A client cannot get around the rate limit by inventing addresses",
  "4.4-store": "Forbids caches to store a key",
  "4.4-cors": "Sends CORS headers only for configured origins",
  "4.5": "Serves a health report",
  "4.6-update": "Sends changes of PUBLIC variables as events",
  "4.6-delete": "Sends deletions as events without a value",
  "4.6-modes":
    "Detects changes after a signal, by watching a file, and by polling",
  "6.2": "Checks the types in the manifest",
  "6.3":
    "A variable that is optional and set in no tier has its default, in its tier; log and health report count it",
  "6.3-empty":
    "An empty default is a default, and an empty value in the environment wins",
  "6.3-invalid":
    "Refuses to start with an invalid default, also if the environment overrides it",
  "6.3-reload": "A reload returns a variable that is removed to its default",
  "6.3-required":
    "Accepts a default for a required variable, and ignores it: refuses to start if the variable is not set",
  "6.3-scan": "Warns about a PUBLIC default that looks like a secret",
  "6.3-tier": "Does not inject a default if another tier sets the name",
  "7":
    "Flags take precedence over the environment, and the environment over the manifest",
  "8.1": "The payload has REP's schema",
  "8.2":
    "Encrypts SENSITIVE values with AES-256-GCM, with the integrity token as associated data",
  "8.2-restart": "Uses another key after a restart",
  "8.3": "The integrity token is an HMAC over the PUBLIC values",
  "8.3-blob": "The HMAC also covers the encrypted SENSITIVE values",
  "11.1.9": "Issues single-use keys",
  "S2.1": "Checks that variables have the tier that the manifest declares",
  "S2.3": "Issues no key if `Referer` names a foreign origin",
  "S2.6": "Serves the health report on its own port",
  "S4.3": "Logs the audit events",
  "S4.3-payload": "Logs an event for each payload",
} as const;

/** What no request and no log line shows. */
export const HIDDEN_CLAUSES = {
  "4.1-http2": "Supports HTTP/2",
  "4.2.13": "Accepts connections only when ready",
  "4.6-client": "The client works without a stream",
  "5.1": "The client is below 2 KB with gzip",
  "5.1-alone": "The client has no dependencies (R5)",
  "5.2": "The client has REP's functions",
  "5.2-secure": "`getSecure()` is asynchronous, and makes one request",
  "5.3.1": "Values are available at once, without a request",
  "5.3.2": "Without a payload, there are no values",
  "5.3.4": "Verifies the hash during the import, and reports a mismatch",
  "5.3.6": "Values are frozen",
  "5.3.7": "Opens a stream only when code subscribes",
  "7.1": "Has REP's flags and defaults",
  "8.2.1": "Keys come from random bytes that are never stored (also §8.3)",
  "9.2": "Runs `FROM scratch`, with a binary below 5 MB (R6)",
  "11.3": "Type generation, adapters, codemod (all optional)",
  "12.5": "Works with a Content Security Policy",
  "R9-metrics": "Has metrics",
  "S2.5-code": "Contains no third-party code",
  "S2.5-files": "Writes no files; issues keys without a database (also S2.6)",
  "S2.5-shell": "Starts no process",
  "S4.1": "Runs unprivileged",
} as const;

/** The id of a clause that a check asks for. */
export type VisibleClause = keyof typeof VISIBLE_CLAUSES;
