/** A body in memory of which every complete response sends the same bytes, without a copy of its own. */
export interface SharedBody {
  /** In bytes. */
  readonly length: number;
  /** Returns the complete response. */
  respond(): Response;
  /** Returns the bytes, which nobody may change. */
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
}

/**
 * Shares the bytes of a body among responses with the status 200.
 *
 * Deno 2.9 copies bytes when it creates a `Response`, and keeps the copy until the client has read it. `clone()` of a
 * response whose body nobody has looked at shares the bytes, so the template stays private here: a look at its `body`
 * would make a stream of it, and each clone would copy it. The clones share their bytes with the template, so nobody may
 * write into them or transfer them: only where all responses go to `Deno.serve` may they be shared. Node.js copies.
 */
export function sharedBody(
  bytes: Uint8Array<ArrayBuffer>,
  headers: Readonly<Record<string, string>>,
): SharedBody {
  const template = new Response(bytes, { headers });
  return {
    length: bytes.length,
    respond: () => template.clone(),
    bytes: () => template.clone().bytes(),
  };
}
