/** A value that must never be printed. */
import { inspect } from 'node:util';

/**
 * A key in a wrapper: in a template, a log line, JSON, an inspected error or a debugger it reads `****` and its last
 * four characters (none of a key shorter than eight). Only `reveal` gives the key itself.
 */
export class Secret {
  readonly #value: string;

  constructor(value: string) {
    this.#value = value;
  }

  /** The value itself, for the request and nothing else. */
  reveal(): string {
    return this.#value;
  }

  toString(): string {
    return `****${this.#value.length < 8 ? '' : this.#value.slice(-4)}`;
  }

  toJSON(): string {
    return this.toString();
  }

  [inspect.custom](): string {
    return this.toString();
  }
}

/** An address that must not be printed whole: what follows its host may be what lets one use it. */
export class SecretAddress extends Secret {
  /** `hooks.example.com:8443`, for logs and messages. */
  get host(): string {
    return new URL(this.reveal()).host;
  }

  override toString(): string {
    return `${new URL(this.reveal()).origin}/****`;
  }
}
