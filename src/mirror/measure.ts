/**
 * Measures what a server does where the API's reference is silent, once for each list. What the responses do not prove is taken
 * for the costlier case: that costs requests later, but never records. Section "The profile" of docs/architecture.md.
 */
import type { Client } from '../api/operations.ts';
import type { Page } from '../api/body.ts';
import { type DateFormat, dateRange, type ListOptions } from '../api/lists.ts';
import { serverAheadOf } from '../api/headers.ts';
import { NotTheApi, OtherPageSize, RefusedInput, ServerFailed } from '../api/errors.ts';
import { Reach, readingRecords, readPage, type RequestPage } from '../api/narrow.ts';
import { IncompleteError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { addDays, type Clock, type Day, dayMs, dayOf, parseInstant, parseWritten } from '../model/time.ts';
import type { DayBounds, Profile } from './profile.ts';

/** Oldest records to request: only their times matter. */
const sampleSize = 100;
/** Larger pages are not faster, and memory holds a page several times over while it is read. */
const usualPageBytes = 8 * 1_048_576;
/** Records may still be added to days later than this long ago. */
const settledMs = 3 * dayMs;
/** A day on which no record was created. */
export const farDay = '2099-01-01' as Day;

/** The error if totals count records on days that have none. @param records how many on the far day */
export function wrongTotals(records: number): IncompleteError {
  return new IncompleteError(`the server counts ${counted(records, 'record')} on ${farDay}, so its totals are wrong`);
}

interface MeasuredList {
  readonly client: Pick<Client, 'list'> & Partial<Pick<Client, 'maxBodyBytes'>>;
  readonly resource: ResourceName;
  readonly signal?: AbortSignal | undefined;
  readonly clock: Clock;
  /** The page size to begin with. */
  readonly pageSize: number;
}

/**
 * Measures one list in 3 to 5 requests if the server does as most do. Throws what `Client.list` throws if the plain list cannot
 * be read.
 */
export async function measureProfile(list: MeasuredList): Promise<Profile> {
  const { client, resource, pageSize: wanted, clock } = list;
  const notes: string[] = [];
  const reach = new Reach();
  const newest = await largestPage(list, 'desc', Math.min(wanted, reach.size), reach);
  const clockAheadMs = serverAheadOf(newest, clock.now()) ?? 0;
  const oldest = await largestPage(list, 'asc', Math.min(sampleSize, newest.perPage, reach.size), reach);
  const maxBytes = Math.min(usualPageBytes, (client.maxBodyBytes ?? Infinity) / 2);
  const recordBytes = Math.max(
    ...[newest, oldest].map(({ text, records }) => text.length / Math.max(1, records.length)),
  );
  const pageSize = Math.max(1, Math.min(sizeOf(newest), reach.size, Math.floor(maxBytes / recordBytes)));
  const ordered = isOrdered(newest, oldest);
  if (!ordered) notes.push(`${resource}: the list does not come in the order of creation`);
  const seen = [...recordsOn(newest), ...recordsOn(oldest)];
  const settled = seen.filter(({ at }) => at < clock.now() + clockAheadMs - settledMs);
  const day = fullestDay(settled.length > 0 ? settled : seen);
  const base = { pageSize, ordered, clockAheadMs, notes, ...(reach.size < wanted ? { isNarrowed: true } : {}) };
  if (day === undefined) {
    notes.push(`${resource}: no record with a creation time, so date ranges could not be tried`);
    return { ...base, dates: 'none', dayBounds: 'wide' };
  }
  const known = { day, seen, total: newest.total };
  for (const dates of ['iso', 'dmy'] as const) {
    const dayBounds = await boundsOf({ ...list, pageSize, ordered, reach }, known, dates);
    if (dayBounds === undefined) continue;
    if (dayBounds === 'wide') notes.push(`${resource}: the days of ranges are not those of creation times`);
    return { ...base, dates, dayBounds };
  }
  notes.push(`${resource}: date ranges do not work; everything is read as one`);
  return { ...base, dates: 'none', dayBounds: 'wide' };
}

/** Returns the records at one end of the list, on the largest page that the server accepts: a refused size is halved. */
async function largestPage(
  { client, resource, signal }: MeasuredList,
  direction: 'asc' | 'desc',
  first: number,
  reach: Reach,
): Promise<Page> {
  const sorts = [{ key: 'created_at', direction }] as const;
  const requestOne: RequestPage = (page, paginate, patience) =>
    client.list(resource, { sorts, paginate, page }, signal, patience);
  for (let size = first; ;) {
    try {
      return await readPage(readingRecords(requestOne), 1, size, reach);
    } catch (error) {
      if (error instanceof OtherPageSize && error.came < size) size = error.came;
      else if (error instanceof RefusedInput && size > 1) size = Math.floor(size / 2);
      else throw error;
    }
  }
}

/** The page size that the server states, unless it sends fewer records than that. Those that cannot be read count as sent. */
function sizeOf(page: Page): number {
  const got = page.records.length + (page.unreadable ?? []).length;
  return page.lastPage > 1 && got > 0 ? Math.min(page.perPage, got) : page.perPage;
}

function isOrdered(newest: Page, oldest: Page): boolean {
  const [falling = [], rising = []] = [newest, oldest].map(({ records }) =>
    records.map((record) => parseInstant(record['created_at'])).filter((at) => at !== undefined),
  );
  if (new Set([...falling, ...rising]).size < 2) return true;
  const falls = falling.every((at, index) => index === 0 || at <= (falling[index - 1] ?? at));
  const rises = rising.every((at, index) => index === 0 || at >= (rising[index - 1] ?? at));
  return falls && rises && (rising[0] ?? 0) < (falling[0] ?? 0);
}

/** A record whose creation time was seen, as it is written: the written day decides in which window a record is. */
interface Seen {
  readonly id: unknown;
  readonly at: number;
  readonly day: Day;
}

function recordsOn({ records }: Page): Seen[] {
  return records.flatMap((record) => {
    const at = parseWritten(record['created_at']);
    return at === undefined ? [] : [{ id: record['id'], at, day: dayOf(at) }];
  });
}

/** Returns the day with the most of these records. */
function fullestDay(seen: readonly Seen[]): Day | undefined {
  const counts = new Map<Day, number>();
  for (const { day } of seen) counts.set(day, (counts.get(day) ?? 0) + 1);
  return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0];
}

interface KnownDay {
  /** A day with records. */
  readonly day: Day;
  /** Every record that was seen so far. */
  readonly seen: readonly Seen[];
  /** The total of the whole list. */
  readonly total: number;
}

type RangedList = MeasuredList & Pick<Profile, 'ordered'> & { readonly reach: Reach };

/**
 * Returns which days a range in this format shows; undefined if such ranges do not work. They are judged by one day that is
 * known to hold records: by itself, then with the next day, then with those on both sides.
 */
async function boundsOf(list: RangedList, known: KnownDay, dates: DateFormat): Promise<DayBounds | undefined> {
  const { day, total } = known;
  const ranges = [
    [day, day, 'exact'],
    [day, addDays(day, 1), 'next_day'],
    [addDays(day, -1), addDays(day, 1), 'wide'],
  ] as const;
  for (const [from, to, bounds] of ranges) {
    const page = await requestRange(list, from, to, dates);
    if (page === undefined) return undefined;
    const shown = recordsOn(page);
    if (shown.length === 0) continue;
    const isNear = shown.every((each) => each.day >= addDays(from, -1) && each.day < addDays(to, 2));
    if (!isNear || shown.length < page.records.length) return undefined;
    // Either all records lie in the range, or the server ignores it. A range without records shows which.
    if (page.total >= total) {
      const far = await requestRange(list, farDay, addDays(farDay, 1), dates);
      if (far !== undefined && far.total > 0 && far.records.length === 0) {
        throw wrongTotals(far.total);
      }
      if (far?.total !== 0) return undefined;
    }
    return showsDay(page, shown, known, list.ordered) ? bounds : 'wide';
  }
  return undefined;
}

/** Whether the page of a range shows just the records of the day, as far as they are known. */
function showsDay({ lastPage }: Page, shown: readonly Seen[], { day, seen }: KnownDay, ordered: boolean): boolean {
  const isMidnight = ({ at }: Seen) => at % dayMs === 0;
  if (shown.some((each) => each.day !== day && !(each.day === addDays(day, 1) && isMidnight(each)))) return false;
  const ids = new Set(shown.map(({ id }) => id));
  // The first page of several shows the earliest records, if the list is in order.
  const until = lastPage === 1 ? Infinity : ordered ? Math.max(...shown.map(({ at }) => at)) : -Infinity;
  // Servers differ in whether the last second of a day belongs to it.
  const isDue = (each: Seen) => each.day === day && each.at < until && each.at % dayMs < dayMs - 1_000;
  return seen.filter(isDue).every(({ id }) => ids.has(id));
}

/** Requests the first page of a range. Returns undefined if the server refuses it or fails. */
async function requestRange(list: RangedList, from: Day, to: Day, dates: DateFormat): Promise<Page | undefined> {
  const { client, resource, signal, ordered, pageSize, reach } = list;
  const sorts = ordered ? ([{ key: 'created_at', direction: 'asc' }] as const) : [];
  const options: ListOptions = { sorts, date: dateRange(from, to, dates) };
  // A server may fail on all ranges of a format, so one attempt is enough to see it.
  const requestOne: RequestPage = (page, paginate, patience = { pageAttempts: 1 }) =>
    client.list(resource, { ...options, page, paginate }, signal, patience);
  try {
    return await readPage(readingRecords(requestOne), 1, pageSize, reach);
  } catch (error) {
    const isRefused = error instanceof RefusedInput || error instanceof NotTheApi;
    if (isRefused || (error instanceof ServerFailed && error.status !== 429)) return undefined;
    throw error;
  }
}
