import { acceptsEncodings } from "@std/http/negotiation";

/** A way in which a file may lie compressed beside itself. */
export interface Coding {
  /** Its name in HTTP. */
  name: "br" | "gzip";
  /** What such a file's name ends with. */
  suffix: ".br" | ".gz";
}

/** The codings that are looked for; the better one first. */
export const CODINGS: readonly Coding[] = [
  { name: "br", suffix: ".br" },
  { name: "gzip", suffix: ".gz" },
];

/**
 * Chooses the coding that a client likes best (RFC 9110 §12.5.3); among those it likes equally, Brotli.
 *
 * @returns Nothing if the file is to be sent as it is: also when the client does not say what it takes, and when it
 * takes nothing that there is.
 */
export function preferredCoding(headers: Headers, available: readonly Coding[]): Coding | undefined {
  const accepted = headers.get("accept-encoding");
  if (!accepted || available.length === 0) return undefined;
  const ordered = new Headers({ "accept-encoding": brotliFirst(accepted) });
  const name = acceptsEncodings({ headers: ordered }, ...available.map((coding) => coding.name), "identity");
  return available.find((coding) => coding.name === name);
}

/** Browsers write `gzip, deflate, br` and mean no order by it; `acceptsEncodings` takes it for one. */
function brotliFirst(accepted: string): string {
  const isBrotli = (item: string) => /^\s*br\s*(?:;|$)/i.test(item);
  const items = accepted.split(",");
  return [...items.filter(isBrotli), ...items.filter((item) => !isBrotli(item))].join(",");
}
