/**
 * Says why a body is none of the API's, and what the server says in it. Turns the paginated envelope of a list into a page: only
 * the envelope is checked, records are taken as they come. Sections "Lists" and "Errors" of docs/api.md.
 */
import * as z from 'zod';
import { foreignList, isRecord } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { shortLine } from '../model/text.ts';
import { parseExactly } from './exact.ts';
import { headerText, type ResponseTime, whenOf } from './headers.ts';
import type { HttpResponse } from './http.ts';

/** A response as far as its body matters. */
type Given = Pick<HttpResponse, 'body' | 'headers'>;

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
export function isHtml({ body, headers }: Given): boolean {
  const start = body.slice(0, 256).trimStart();
  if (start === '' || start.startsWith('{') || start.startsWith('[')) return false;
  return start.startsWith('<') || (headerText(headers, 'content-type') ?? '').toLowerCase().startsWith('text/html');
}

/**
 * Parses the body of a response that should have one. Throws an UnreadableResponse if it is empty, a web page, cut off, not
 * JSON, nested too deeply, or a refusal under a status of success.
 */
export function bodyOf(response: Given): unknown {
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
  if (isRecord(body) && body['success'] === false)
    throw new UnreadableResponse('the server reports a failure', 'refused', problemsIn(body));
  return body;
}

function tooDeep(): UnreadableResponse {
  return new UnreadableResponse('the response is nested more than 1,000 levels deep');
}

/** SQLite reads JSON of at most a thousand levels; `JSON.stringify` overflows its stack at some thousands. */
const maxLevels = 1_000;

/** Whether arrays and objects are nested too deeply to be stored. Takes a tenth of the time of parsing a page. */
function isTooDeep(parsed: unknown, levels = maxLevels): boolean {
  if (typeof parsed !== 'object' || parsed === null) return false;
  if (levels === 0) return true;
  if (Array.isArray(parsed)) return parsed.some((each) => isTooDeep(each, levels - 1));
  // Not Object.values: making the list would take twice as long as looking at the values.
  const record = parsed as Readonly<Record<string, unknown>>;
  for (const name in record) {
    const value = record[name];
    if (typeof value === 'object' && isTooDeep(value, levels - 1)) return true;
  }
  return false;
}

function textsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn);
  return typeof value === 'string' || typeof value === 'number' ? [String(value)] : [];
}

/**
 * Returns the texts of an error body: `{"success": false, "errors": ["…"]}` or
 * `{"message": "…", "errors": {"field": ["…"]}}`. Each is cut at 500 characters.
 */
export function problemsIn(body: unknown): string[] {
  if (!isRecord(body)) return [];
  const { message, errors, error } = body;
  const fields = isRecord(errors)
    ? Object.entries(errors).flatMap(([field, texts]) => textsIn(texts).map((text) => `${field}: ${text}`))
    : textsIn(errors);
  const problems = fields.length > 0 ? fields : [...textsIn(message), ...textsIn(error)];
  return problems.filter((text) => text !== '').map(shortLine);
}

/** Returns what an error response says: a body of neither shape as it stands, unless it is a web page. */
export function problemsOf(response: Given): string[] {
  if (response.body === '' || isHtml(response)) return [];
  const problems = problemsIn(parsedOrText(response.body));
  return problems.length > 0 ? problems : [shortLine(response.body)];
}

/** Returns the parsed JSON, or the text if it is not JSON. */
export function parsedOrText(body: string): unknown {
  try {
    return parseExactly(body);
  } catch {
    return body;
  }
}

/** A record as it came, with documented and any other keys. Integers beyond 2^53 are bigints. */
export type ApiRecord = Readonly<Record<string, unknown>>;

/**
 * Returns the record in a response about a single user: the body itself, or its `data` or `user`, since the API's reference
 * does not show these bodies. Undefined if none of them is an object with an `id`.
 */
export function recordIn(body: unknown): ApiRecord | undefined {
  if (!isRecord(body)) return undefined;
  return [body, body['data'], body['user']].filter(isRecord).find((each) => each['id'] !== undefined);
}

/** A record that makes every page fail that it is on. */
export interface Unreadable {
  /** Its place in the list, from 1. */
  readonly place: number;
  /** The error of the smallest request that failed: the request and the server's words. */
  readonly problem: string;
}

/** The numbers of the envelope, and when it came. */
export interface ListPage extends ResponseTime {
  readonly page: number;
  /** As the server says; it may be less than requested. */
  readonly perPage: number;
  /** Never below 1. */
  readonly lastPage: number;
  /** Matching records on all pages. */
  readonly total: number;
  /** Records of the page that not even a page of one record shows. */
  readonly unreadable?: readonly Unreadable[];
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
  // The records are checked by hand below: a schema would take longer for a thousand of them than parsing did. A PHP array with
  // gaps, as after a filter, comes as an object whose keys are numbers.
  data: z.custom<object>(
    (data) => Array.isArray(data) || (isRecord(data) && Object.keys(data).every((key) => /^\d+$/.test(key))),
  ),
});

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
  if (!parsed.success) throw notAList(body, parsed.error.issues[0]?.path.join('.') || 'its body');
  const { current_page: page, per_page: perPage, last_page: lastPage, total } = parsed.data;
  const data: readonly unknown[] = Object.values(parsed.data.data);
  if (page !== requested)
    throw new UnreadableResponse(`page ${requested} was requested and page ${page} came`, 'wrong-page');
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

function notAList(body: unknown, part: string): UnreadableResponse {
  const problems = problemsIn(body);
  if (problems.length > 0) return new UnreadableResponse('the response is not a list', 'refused', problems);
  const keys = isRecord(body) ? shortLine(Object.keys(body).slice(0, 8).join(', ')) || 'nothing' : undefined;
  const found = keys === undefined ? '' : `; what came has ${keys}`;
  return new UnreadableResponse(`the response is not a list: ${part} is not as documented${found}`);
}
