/**
 * The body of a response: parsed, and where it is the paginated envelope of a list, checked and turned into a page. Only
 * the envelope is checked; records are taken as they come. Sections "Lists" and "Errors" of docs/api.md.
 */
import { z } from 'zod';
import { foreignList, isRecord } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { secondMs } from '../model/time.ts';
import { ageOf, contentTypeOf, type HttpResponse, serverTimeOf } from './http.ts';
import { isTooDeep, parseExactly } from './exact-json.ts';

/** A 2xx that is no usable response. A read is tried again; a write's outcome is unknown. */
export class UnreadableResponse extends Error {
  override readonly name = 'UnreadableResponse';
  /** True where a web page came: probably not from the API. */
  readonly html: boolean;
  /** What the server said where it refused under a status of success, else undefined. */
  readonly refusal: readonly string[] | undefined;
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
export function bodyOf(response: Pick<HttpResponse, 'body' | 'headers'>): unknown {
  if (response.body === '') throw new UnreadableResponse('the response is empty');
  if (isHtml(response)) throw new UnreadableResponse('the response is a web page', { html: true });
  let body: unknown;
  try {
    body = parseExactly(response.body);
  } catch (error) {
    // Out of room for its own calls.
    if (error instanceof RangeError) throw tooDeep();
    // The parser's own message quotes the body, which may hold anything.
    throw new UnreadableResponse('the response is not whole, or not JSON');
  }
  if (isTooDeep(body)) throw tooDeep();
  if (isRefusal(body)) {
    throw new UnreadableResponse('the server reports a failure', { refusal: problemsIn(body) });
  }
  return body;
}

function tooDeep(): UnreadableResponse {
  return new UnreadableResponse('the response is nested more than 1,000 levels deep');
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
  const fields = isRecord(errors)
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

/** The same of a response whose body may be anything: what is neither shape, nor a web page, is given as it stands. */
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

/** A record as it came: keys of the document and any others. Numbers beyond 2^53 are bigints. */
export type ApiRecord = Readonly<Record<string, unknown>>;

/** Records that make each page fail that they are on. */
export interface Unreadable {
  /** Their places in the list, from 1; more than one where it was not tried to find the single ones. */
  readonly first: number;
  readonly last: number;
  /** The smallest request that failed, and the server's words. */
  readonly problem: string;
}

/** The envelope's numbers, and when it came. */
export interface ListPage {
  readonly page: number;
  /** As the server says, which may be less than what was requested. */
  readonly perPage: number;
  /** Never below 1. */
  readonly lastPage: number;
  /** Records that match, over all pages. */
  readonly total: number;
  /** What of it no page shows, however small, where the server could not make it whole. */
  readonly unreadable?: readonly Unreadable[];
  /** The `Date` header, in whole seconds, ms since 1970. */
  readonly serverTime?: number;
  /** How long ago the server gave this, where a cache in front has kept it, in whole seconds, ms. */
  readonly ageMs?: number;
  /** How long the response took. */
  readonly milliseconds: number;
}

export interface Page extends ListPage {
  readonly records: readonly ApiRecord[];
  /** The body as it came. */
  readonly text: string;
}

const count = z.union([z.int(), z.string().regex(/^\d+$/).transform(Number)]).pipe(z.int().min(0));

const envelope = z.object({
  current_page: count,
  per_page: count,
  last_page: count,
  total: count,
  // Checked by hand below: a schema would take longer over a thousand records than parsing them did.
  data: z.custom<object>((data) => Array.isArray(data) || isNumbered(data)),
});

/** PHP's array with gaps, as after a filter: an object whose keys are numbers. They come in the order of the numbers. */
function isNumbered(data: unknown): data is Record<string, unknown> {
  return isRecord(data) && Object.keys(data).every((key) => /^\d+$/.test(key));
}

/**
 * The response as a page of the resource's list. Throws an UnreadableResponse for whatever is no envelope, for an envelope of
 * another page than the one requested - servers give their first page for one they do not like - and for the records of
 * another list.
 */
export function pageOf(
  response: Pick<HttpResponse, 'body' | 'headers' | 'milliseconds'>,
  requested: number,
  resource: ResourceName,
): Page {
  const body = bodyOf(response);
  const parsed = envelope.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const refusal = problemsIn(body);
    if (refusal.length > 0) throw new UnreadableResponse('the response is not a list', { refusal });
    const found = isRecord(body)
      ? `; what came has ${shortLine(Object.keys(body).slice(0, 8).join(', ')) || 'nothing'}`
      : '';
    throw new UnreadableResponse(
      `the response is not a list: ${issue?.path.join('.') || 'its body'} is not as documented${found}`,
    );
  }
  const { current_page: page, per_page: perPage, last_page: lastPage, total } = parsed.data;
  const data: readonly unknown[] = Object.values(parsed.data.data);
  if (page !== requested) {
    throw new UnreadableResponse(`page ${requested} was requested and page ${page} came`, { mistaken: true });
  }
  if (!data.every(isRecord))
    throw new UnreadableResponse('the response is not a list: data holds something that is not a record');
  const foreign = foreignList(data, resource);
  if (foreign !== undefined) throw new UnreadableResponse(foreign, { foreign: true });
  return {
    page,
    perPage: Math.max(1, perPage),
    lastPage: Math.max(1, lastPage),
    total,
    records: data,
    text: response.body,
    ...whenOf(response),
  };
}

/** When the server gave the response, and how long it took. */
export function whenOf({
  headers,
  milliseconds,
}: Pick<HttpResponse, 'headers' | 'milliseconds'>): Pick<ListPage, 'serverTime' | 'ageMs' | 'milliseconds'> {
  const ageMs = ageOf(headers);
  const serverTime = serverTimeOf(headers);
  return {
    milliseconds,
    ...(serverTime === undefined ? {} : { serverTime }),
    ...(ageMs === undefined ? {} : { ageMs }),
  };
}

/**
 * By how much the server's clock was ahead of this machine's when the response came, ms; below 0 behind, undefined where it
 * sends no time. Some caches pass on the `Date` of the server and others write their own, so that `Age` must be added to the one
 * and not to the other: what agrees better with this machine is taken. An absurd `Age` then says nothing of the clocks.
 */
export function serverAheadOf(
  { serverTime, ageMs = 0, milliseconds }: Pick<ListPage, 'serverTime' | 'ageMs' | 'milliseconds'>,
  now: number,
): number | undefined {
  if (serverTime === undefined) return undefined;
  // The header is cut to whole seconds, half a second is its mean error; it was written halfway through the wait.
  const ahead = Math.round(serverTime + secondMs / 2 - (now - milliseconds / 2));
  return Math.abs(ahead) <= Math.abs(ahead + ageMs) ? ahead : ahead + ageMs;
}

/**
 * The one record that a response about a single user holds: the body itself, or what it holds under `data` or `user`.
 * The document does not show these bodies. Undefined where no object with an `id` is found.
 */
export function recordIn(body: unknown): ApiRecord | undefined {
  if (!isRecord(body)) return undefined;
  return [body, body['data'], body['user']].filter(isRecord).find((each) => each['id'] !== undefined);
}
