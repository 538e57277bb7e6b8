/** Takes the key out of text that somebody may read: errors, logs, causes. */

export type Redact = (text: string) => string;

/** Replaces every occurrence of the key, plain or as it stands in a URL, by `****`. */
export function redactorOf(key: string): Redact {
  const forms = [...new Set([key, encodeURIComponent(key)])].filter((form) => form !== '');
  return (text) => forms.reduce((clean, form) => clean.replaceAll(form, '****'), text);
}

/** An error's own words without the key: a fresh error, because the original may hold the request in its fields. */
export function causeOf(error: unknown, redact: Redact): Error {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const code = codeOf(error);
  const cause = new Error(redact(code === undefined || text.includes(code) ? text : `${text} (${code})`));
  // Its stack would point here; where the original came from is the network.
  cause.stack = cause.message;
  return cause;
}

/** The `code` of an error of Node.js or undici: `ECONNREFUSED`, `UND_ERR_SOCKET`. */
export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
}
