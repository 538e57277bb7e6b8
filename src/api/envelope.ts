/**
 * Parses the body of a response, and turns the paginated envelope of a list into a page. Only the envelope is checked;
 * records are taken as they come. Sections "Lists" and "Errors" of docs/api.md.
 */
import { z } from 'zod';
import { foreignList, isRecord } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { shortLine } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { ageOf, contentTypeOf, type HttpResponse, serverTimeOf } from './http.ts';
import { isTooDeep, parseExactly } from './exact-json.ts';

/**
 * A 2xx without a usable body. A read is retried; the outcome of a write is unknown. `web-page`: probably not from the API.
 * `refused`: the server refuses under a status of success. `wrong-page`: another page than the requested one. `foreign`: the
 * records of another list.
 */
export class UnreadableResponse extends Error {
  override readonly name = 'UnreadableResponse';
  readonly kind: 'malformed' | 'web-page' | 'refused' | 'wrong-page' | 'foreign';
  /** The server's words if it refused. */
  readonly problems: readonly string[];

  constructor(message: string, kind: UnreadableResponse['kind'] = 'malformed', problems: readonly string[] = []) {
    super(message);
    this.kind = kind;
    this.problems = problems;
  }
}

/** Whether the body is a web page. Its first characters decide; the content type counts only if they are neither JSON nor HTML. */
export function isHtml(response: Pick<HttpResponse, 'body' | 'headers'>): boolean {
  const start = response.body.slice(0, 256).trimStart();
  if (start === '' || start.startsWith('{') || start.startsWith('[')) return false;
  return start.startsWith('<') || contentTypeOf(response.headers).startsWith('text/html');
}

/**
 * Parses the body of a response that should have one. Throws an UnreadableResponse if it is empty, a web page, cut off, not
 * JSON, or a refusal under a status of success.
 */
export function bodyOf(response: Pick<HttpResponse, 'body' | 'headers'>): unknown {
  if (response.body === '') throw new UnreadableResponse('the response is empty');
  if (isHtml(response)) throw new UnreadableResponse('the response is a web page', 'web-page');
  let body: unknown;
  try {
    body = parseExactly(response.body);
  } catch (error) {
    // The parser's call stack overflowed.
    if (error instanceof RangeError) throw tooDeep();
    // The parser's own message quotes the body, which may hold anything.
    throw new UnreadableResponse('the response is not whole, or not JSON');
  }
  if (isTooDeep(body)) throw tooDeep();
  if (isRefusal(body)) throw new UnreadableResponse('the server reports a failure', 'refused', problemsIn(body));
  return body;
}

function tooDeep(): UnreadableResponse {
  return new UnreadableResponse('the response is nested more than 1,000 levels deep');
}

/** Whether the body is `{"success": false, …}`, whatever the status. */
function isRefusal(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'success' in body && body.success === false;
}

function textsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return [];
}

/**
 * Returns the texts of an error body: `{"success": false, "errors": ["…"]}` or
 * `{"message": "…", "errors": {"field": ["…"]}}`. Each is cut at 500 characters.
 */
export function problemsIn(body: unknown): string[] {
  if (typeof body !== 'object' || body === null) return [];
  const { message, errors, error } = body as { message?: unknown; errors?: unknown; error?: unknown };
  const fields = isRecord(errors)
    ? Object.entries(errors).flatMap(([field, texts]) => textsIn(texts).map((text) => `${field}: ${text}`))
    : textsIn(errors);
  const problems = fields.length > 0 ? fields : [...textsIn(message), ...textsIn(error)];
  return problems.filter((text) => text !== '').map(shortLine);
}

/** Returns what an error response says, whatever its body is: a body of neither shape, unless it is a web page, as it stands. */
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

/** A record as it came, with documented and any other keys. Integers beyond 2^53 are bigints. */
export type ApiRecord = Readonly<Record<string, unknown>>;

/** A record that makes every page fail that it is on. */
export interface Unreadable {
  /** Its place in the list, from 1. */
  readonly place: number;
  /** The error of the smallest request that failed: the request and the server's words. */
  readonly problem: string;
}

/** The numbers of the envelope, and when it came. */
export interface ListPage {
  readonly page: number;
  /** As the server says; it may be less than requested. */
  readonly perPage: number;
  /** Never below 1. */
  readonly lastPage: number;
  /** Matching records on all pages. */
  readonly total: number;
  /** Records of the page that not even a page of one record shows. */
  readonly unreadable?: readonly Unreadable[];
  /** The `Date` header, ms since 1970, in whole seconds. */
  readonly serverTime?: number;
  /** Age of the response if it came from a cache, ms, in whole seconds. */
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
  // The records are checked by hand below: a schema would take longer for a thousand of them than parsing did.
  data: z.custom<object>((data) => Array.isArray(data) || isNumbered(data)),
});

/** Whether the data is a PHP array with gaps, as after a filter: an object whose keys are numbers, in numeric order. */
function isNumbered(data: unknown): data is Record<string, unknown> {
  return isRecord(data) && Object.keys(data).every((key) => /^\d+$/.test(key));
}

/**
 * Turns the response into a page of the resource's list. Throws an UnreadableResponse if it is not an envelope, if another
 * page came than the requested one (servers give their first page instead of one that they do not like), or if the records
 * belong to another list.
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
    const problems = problemsIn(body);
    if (problems.length > 0) throw new UnreadableResponse('the response is not a list', 'refused', problems);
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
    throw new UnreadableResponse(`page ${requested} was requested and page ${page} came`, 'wrong-page');
  }
  if (!data.every(isRecord))
    throw new UnreadableResponse('the response is not a list: data holds something that is not a record');
  const foreign = foreignList(data, resource);
  if (foreign !== undefined) throw new UnreadableResponse(foreign, 'foreign');
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

/** Returns when the server gave the response, and how long it took. */
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
 * Returns how far the server's clock was ahead of this machine's when the response came, ms: negative if it was behind,
 * undefined if the response has no time. Some caches pass on the server's `Date`, to which `Age` must be added; others write
 * their own. The reading that agrees better with this machine's clock is taken, so an absurd `Age` changes nothing.
 */
export function serverAheadOf(
  { serverTime, ageMs = 0, milliseconds }: Pick<ListPage, 'serverTime' | 'ageMs' | 'milliseconds'>,
  now: number,
): number | undefined {
  if (serverTime === undefined) return undefined;
  // The header is cut to whole seconds (half a second off on average), and was written about halfway through the wait.
  const ahead = Math.round(serverTime + secondMs / 2 - (now - milliseconds / 2));
  return Math.abs(ahead) <= Math.abs(ahead + ageMs) ? ahead : ahead + ageMs;
}

/**
 * Returns the record in a response about a single user: the body itself, or its `data` or `user`, since the API's reference
 * does not show these bodies. Undefined if none of them is an object with an `id`.
 */
export function recordIn(body: unknown): ApiRecord | undefined {
  if (!isRecord(body)) return undefined;
  return [body, body['data'], body['user']].filter(isRecord).find((each) => each['id'] !== undefined);
}
