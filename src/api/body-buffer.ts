/**
 * A body as it arrives. Each piece is copied at once into one buffer, so that the pieces, which come from the socket in
 * their dozens, are garbage before the next page is there: kept until the end, they outlive the collector's young
 * generation and triple the memory of a long sync.
 */
export class BodyBuffer {
  #bytes: Buffer;
  #length = 0;

  /** @param expected bytes that the answer announces; 0 where it does not */
  constructor(expected: number) {
    this.#bytes = Buffer.allocUnsafeSlow(expected);
  }

  get length(): number {
    return this.#length;
  }

  append(piece: Buffer): void {
    const needed = this.#length + piece.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}
