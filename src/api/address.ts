/** Where the API is: what stands before every path, and what messages name. */

interface Address {
  readonly origin: string;
  /** The address's own path, without a slash at its end. */
  readonly prefix: string;
  /** Both, for messages. */
  readonly text: string;
}

export function addressOf(baseUrl: string): Address {
  const { origin, pathname } = new URL(baseUrl);
  const prefix = pathname.replace(/\/+$/, '');
  return { origin, prefix, text: `${origin}${prefix}` };
}
