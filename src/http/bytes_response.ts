/** A response whose whole body is known, so that it can be read and changed without a stream. */
export class BytesResponse extends Response {
  /** The body. It must not be changed. */
  readonly content: Uint8Array<ArrayBuffer>;

  constructor(content: Uint8Array<ArrayBuffer>, init: ResponseInit) {
    super(content, init);
    this.content = content;
  }
}
