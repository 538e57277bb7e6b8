/** Takes secrets out of text that somebody may read: keys and passwords that are known, and passwords by what they are called. */

const mask = '****';

/** A shorter word stands in too many texts to be taken out of them. */
const shortest = 4;

/** The ways in which a word stands in text: plain, in a URL, in JSON, in HTML. */
export function formsOf(word: string): string[] {
  const json = JSON.stringify(word).slice(1, -1);
  const html = word.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
  const forms = [word, encodeURIComponent(word.toWellFormed()), json, json.replaceAll('/', '\\/'), html];
  // The longest first: a shorter one may be a part of it.
  return [...new Set(forms)].filter((form) => form !== '').sort((a, b) => b.length - a.length);
}

/** The text with every form of a secret in place of itself. */
export function withoutForms(text: string, forms: readonly string[]): string {
  return forms.reduce((clean, form) => clean.replaceAll(form, mask), text);
}

const fieldName = '(?:passw(?:or)?d|passphrase|pwd)(?:_?(?:confirmation|plain|hash|generated|text))?';
const inJson = new RegExp(String.raw`(${fieldName}"\s*:\s*")((?:[^"\\]|\\.)*)(")`, 'gi');
/** JSON that stands as text in JSON, as where an error quotes what was sent. */
const inQuotedJson = new RegExp(String.raw`(${fieldName}\\+"\s*:\s*\\+")([^"\\]*)(\\+")`, 'gi');
/** `Your password is <b>k3Xw9q</b>`. */
const inWords =
  /(\bpass(?:word|phrase)\b(?:\s+(?:is|was|set|to|now))*\s*(?:[:=]\s*)?(?:<\w{1,6}>)?["'“‘]?)([^\s"'”’<>,;]{6,})/gi;

/** A field called so names a password: `password`, `newPassword`, `password_hash`; not `password_changed_at`. */
const wholeName = new RegExp(`${fieldName}$`, 'i');

/**
 * The text without the passwords that it tells under their name: as fields of JSON, and in sentences where what follows
 * looks made up. What has spaces in it is words about a password, as in `"password": "The password is too short."`.
 */
export function withoutPasswords(text: string): string {
  return withoutPasswordFields(text).replace(inWords, (whole: string, before: string, word: string) =>
    looksMadeUp(word) && !word.startsWith(mask) ? `${before}${mask}` : whole,
  );
}

/** The same of fields alone: in a record, sentences are data. */
export function withoutPasswordFields(text: string): string {
  const hide = (whole: string, before: string, value: string, after: string): string =>
    value === '' || /\s/.test(value) ? whole : `${before}${mask}${after}`;
  return text.replace(inJson, hide).replace(inQuotedJson, hide);
}

/** A shorter value may be a word such as `none`, or a number. */
const shortestTold = 6;

/** The passwords that JSON tells under their name, whether it is whole or not. */
export function passwordsTold(json: string): string[] {
  return [...json.matchAll(inJson)].flatMap(([, , value = '']) => {
    if (value.length < shortestTold || /\s/.test(value)) return [];
    try {
      return [String(JSON.parse(`"${value}"`))];
    } catch {
      return [value];
    }
  });
}

/** Two kinds of letters, digits and signs, where a word of a sentence has one and a capital at its beginning. */
function looksMadeUp(word: string): boolean {
  const inner = word.slice(1).replace(/[.!?)]+$/, '');
  const kinds = [/[a-z]/, /[A-Z]/, /\d/, /[^\w\s.:/-]/].filter((kind) => kind.test(inner)).length;
  return kinds >= 2;
}

/** Whether a field or a column of that name holds passwords. */
export function namesPassword(name: string): boolean {
  return wholeName.test(name.trim());
}

/** The values of the fields of a body that are called passwords, however deep they stand. */
export function passwordsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'string' ? (namesPassword(name) ? [inner] : []) : passwordsIn(inner),
  );
}

/** The secrets that a process has come to know. */
export class SecretWords {
  readonly #forms = new Set<string>();

  add(word: string): void {
    if (word.length >= shortest) for (const form of formsOf(word)) this.#forms.add(form);
  }

  /** The text without them. */
  redact(text: string): string {
    return withoutForms(text, [...this.#forms]);
  }
}
