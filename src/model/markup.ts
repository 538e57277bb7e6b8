/** Makes markup from templates. Every value is escaped, except markup that these templates made themselves. */

/** Markup that is safe to show. What came from elsewhere is text, whatever it looks like. */
export class Html {
  readonly #text: string;

  /** @param text markup that holds nothing of anybody's but what was escaped */
  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** A value in a template. Booleans are not allowed: they would be printed as words. */
export type Part = Html | string | number | null | undefined | readonly Part[];

/** Escaped like this, a value cannot end the text or the quoted attribute in which it stands. */
const escapes: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Makes markup. A list is its parts one after the other; null and undefined are nothing. */
export function escapedHtml(strings: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(strings.reduce((text, string, at) => `${text}${partText(parts[at - 1])}${string}`));
}

function partText(part: Part): string {
  if (part === null || part === undefined) return '';
  if (part instanceof Html) return part.toString();
  if (typeof part === 'object') return part.map(partText).join('');
  return String(part).replaceAll(/[&<>"']/g, (sign) => escapes[sign] ?? '');
}
