/**
 * The paginated envelope that every list answers with: read, checked, and turned into a page. Only the envelope is
 * checked; records are taken as they come. Section "Lists" of docs/api.md.
 */
import { z } from 'zod';
import { foreignList } from '../model/foreign-records.ts';
import type { ResourceName } from '../model/resources.ts';
import { ageOf, serverTimeOf } from './response-headers.ts';
import { bodyOf, problemsIn, UnreadableResponse } from './response-body.ts';
import type { HttpResponse } from './http.ts';

/** A record as it came: keys of the document and any others. Numbers beyond 2^53 are bigints. */
export type ApiRecord = Readonly<Record<string, unknown>>;

/** Records that make each page fail that they are on. */
export interface Unreadable {
  /** Their places in the list, from 1; more than one where it was not tried to tell them apart. */
  readonly first: number;
  readonly last: number;
  /** The smallest request that failed, and the server's words. */
  readonly problem: string;
}

/** The envelope's numbers, and when it came. */
export interface ListPage {
  readonly page: number;
  /** As the server says, which may be less than what was asked for. */
  readonly perPage: number;
  /** Never below 1. */
  readonly lastPage: number;
  /** Records that match, over all pages. */
  readonly total: number;
  /** What of it no page shows, however small, where the server could not make it whole. */
  readonly unreadable?: readonly Unreadable[];
  /** The server's clock by its `Date` header, in whole seconds, ms since 1970. */
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
 * another page than the one asked for - servers answer a page they do not like with their first - and for the records of
 * another list.
 */
export function pageOf(response: HttpResponse, requested: number, resource: ResourceName): Page {
  const body = bodyOf(response);
  const parsed = envelope.safeParse(body);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const refusal = problemsIn(body);
    if (refusal.length > 0) throw new UnreadableResponse('the answer is no list', { refusal });
    throw new UnreadableResponse(`the answer is no list: ${issue?.path.join('.') || 'its body'} is not as documented`);
  }
  const { current_page: page, per_page: perPage, last_page: lastPage, total } = parsed.data;
  const data: readonly unknown[] = Object.values(parsed.data.data);
  if (page !== requested) {
    throw new UnreadableResponse(`page ${requested} was asked for and page ${page} came`, { mistaken: true });
  }
  if (!data.every(isRecord))
    throw new UnreadableResponse('the answer is no list: data holds something that is no record');
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
}: HttpResponse): Pick<ListPage, 'serverTime' | 'ageMs' | 'milliseconds'> {
  const ageMs = ageOf(headers);
  const serverTime = serverTimeOf(headers);
  return {
    milliseconds,
    ...(serverTime === undefined ? {} : { serverTime: serverTime + (ageMs ?? 0) }),
    ...(ageMs === undefined ? {} : { ageMs }),
  };
}

export function isRecord(value: unknown): value is ApiRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * The one record that a response about a single user holds: the body itself, or what it holds under `data` or `user`.
 * The document does not show these bodies. Undefined where no object with an `id` is found.
 */
export function recordIn(body: unknown): ApiRecord | undefined {
  if (!isRecord(body)) return undefined;
  return [body, body['data'], body['user']].filter(isRecord).find((each) => each['id'] !== undefined);
}
