/** The configuration in a page (REP-RFC-0001 §4.3, §8.1). */
export interface Payload {
  readonly public: Readonly<Record<string, string>>;
  /** The encrypted SENSITIVE values: base64 of nonce, ciphertext and tag. Absent if there are none. */
  readonly sensitive?: string;
  readonly _meta: {
    readonly version: string;
    /** RFC 3339. */
    readonly injected_at: string;
    readonly integrity: string;
    /** The path that returns the session key; absent without SENSITIVE values. */
    readonly key_endpoint?: string;
    /** The path of the stream of changes since this payload; absent without hot reload. */
    readonly hot_reload?: string;
    /** Seconds between two polls; absent if the page opens a stream. */
    readonly poll?: number;
    /** Seconds until the payload expires; 0 means never. */
    readonly ttl?: 0;
  };
}
