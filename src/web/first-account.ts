/** The first admin: made by whoever can read the terminal of `serve`, with a link that works once. */
import { timingSafeEqual } from 'node:crypto';

export class FirstAccount {
  readonly #token: Buffer;
  #isUsed = false;

  /** @param token random; it stands in the link alone */
  constructor(token: string) {
    this.#token = Buffer.from(token);
  }

  /** `/first/…` */
  get path(): string {
    return `/first/${this.#token.toString()}`;
  }

  /** Whether the link is this one and may still be used. */
  isOpen(token: string): boolean {
    const given = Buffer.from(token);
    return !this.#isUsed && given.length === this.#token.length && timingSafeEqual(given, this.#token);
  }

  use(): void {
    this.#isUsed = true;
  }
}
