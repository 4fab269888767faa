/**
 * A page in memory, before the configuration is inserted. It is the same object for as long as the file is unchanged.
 */
export interface StaticPage {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The headers of a response with the page as it is, with the entity tag of its bytes. */
  readonly headers: Readonly<Record<string, string>>;
  /** Counts what is made of the page, and kept as long as the page is, against the limit of the cache. */
  readonly countDerived: (bytes: number) => void;
}
