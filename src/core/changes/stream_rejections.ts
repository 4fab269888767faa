/** Why a stream is rejected, and what its client is told. With `max_streams…`, it still gets what it has missed. */
export const STREAM_REJECTIONS = {
  stopping: "the gateway is stopping",
  store_unavailable: "the store is unavailable",
  stands_apart: "the store may have the values of another app",
  max_streams: "too many open streams",
  max_streams_per_client: "too many open streams of this client",
  max_polls: "too many requests",
  max_polls_per_client: "too many requests of this client",
} as const;

/** A reason for which a stream is rejected. */
export type StreamRejection = keyof typeof STREAM_REJECTIONS;
