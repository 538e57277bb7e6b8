/** The body of a 2xx as a value, and what a response of any status says is wrong. Section "Errors" of docs/api.md. */
import { contentTypeOf } from './response-headers.ts';
import { isTooDeep, parseExactly } from './exact-json.ts';
import type { HttpResponse } from './http.ts';

/** A 2xx that holds no response. A read is tried again; a write's outcome is unknown. */
export class UnreadableResponse extends Error {
  override readonly name = 'UnreadableResponse';
  /** True where a web page came: probably not from the API. */
  readonly html: boolean;
  /** What the server said where it refused under a status of success, else undefined. */
  readonly refusal: readonly string[] | undefined;
  /** True where it is an answer to another question. */
  readonly mistaken: boolean;
  /** True where it shows the records of another list. */
  readonly foreign: boolean;

  constructor(
    message: string,
    more: {
      readonly html?: boolean;
      readonly refusal?: readonly string[];
      readonly mistaken?: boolean;
      readonly foreign?: boolean;
    } = {},
  ) {
    super(message);
    this.html = more.html ?? false;
    this.refusal = more.refusal;
    this.mistaken = more.mistaken ?? false;
    this.foreign = more.foreign ?? false;
  }
}

/** Whether the body is a web page. What begins as JSON is read as JSON, and a page is a page, whatever the type says. */
export function isHtml(response: Pick<HttpResponse, 'body' | 'headers'>): boolean {
  const start = response.body.slice(0, 256).trimStart();
  if (start === '' || start.startsWith('{') || start.startsWith('[')) return false;
  return start.startsWith('<') || contentTypeOf(response.headers).startsWith('text/html');
}

/**
 * The parsed body of a response that should hold one. Throws an UnreadableResponse where it is empty, a web page, cut off,
 * not JSON, or a refusal under a status of success.
 */
export function bodyOf(response: HttpResponse): unknown {
  if (response.body === '') throw new UnreadableResponse('the answer is empty');
  if (isHtml(response)) throw new UnreadableResponse('the answer is a web page', { html: true });
  let body: unknown;
  try {
    body = parseExactly(response.body);
  } catch (error) {
    // Out of room for its own calls.
    if (error instanceof RangeError) throw tooDeep();
    // The parser's own message quotes the body, which may hold anything.
    throw new UnreadableResponse('the answer is not whole, or not JSON');
  }
  if (isTooDeep(body)) throw tooDeep();
  if (isRefusal(body)) {
    throw new UnreadableResponse('the server reports a failure', { refusal: problemsIn(body) });
  }
  return body;
}

function tooDeep(): UnreadableResponse {
  return new UnreadableResponse('the answer is nested more than 1,000 levels deep');
}

/** `{"success": false, …}`, under whatever status. */
function isRefusal(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'success' in body && body.success === false;
}

/** Longest text of one problem that is shown: a debug trace may follow, and it may hold secrets. */
const longestProblem = 500;

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return [];
}

/**
 * What an error body says, as it came: `{"success": false, "errors": ["…"]}` or
 * `{"message": "…", "errors": {"field": ["…"]}}`. Each text is cut at 500 characters.
 */
export function problemsIn(body: unknown): string[] {
  if (typeof body !== 'object' || body === null) return [];
  const { message, errors, error } = body as { message?: unknown; errors?: unknown; error?: unknown };
  const fields =
    typeof errors === 'object' && errors !== null && !Array.isArray(errors)
      ? Object.entries(errors).flatMap(([field, texts]) => textsIn(texts).map((text) => `${field}: ${text}`))
      : textsIn(errors);
  const said = fields.length > 0 ? fields : [...textsIn(message), ...textsIn(error)];
  return said.filter((text) => text !== '').map(shortLine);
}

/** One line of bounded length without control characters, which could command the terminal that shows it. */
export function shortLine(text: string): string {
  return text
    .slice(0, longestProblem)
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim();
}

/** The same of a response whose body may be anything: what is neither shape, nor a web page, is told as it stands. */
export function problemsOf(response: Pick<HttpResponse, 'body' | 'headers'>): string[] {
  if (response.body === '' || isHtml(response)) return [];
  const asItStands = [shortLine(response.body)];
  try {
    const problems = problemsIn(parseExactly(response.body));
    return problems.length > 0 ? problems : asItStands;
  } catch {
    return asItStands;
  }
}
