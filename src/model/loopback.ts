/** Which hosts are this very machine, so that what is said to them crosses no network. */

/** @param host as a URL has it: of IPv6 in brackets */
export function isLoopback(host: string): boolean {
  return (
    host === 'localhost' ||
    host.endsWith('.localhost') ||
    host === '[::1]' ||
    host === '::1' ||
    /^127(?:\.\d+){3}$/.test(host)
  );
}
