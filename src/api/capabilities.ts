/**
 * What a server can do, measured at first contact in a few requests. Whatever the answers do not prove is `unknown` or
 * `none`, which costs requests later and never records. Section "Capabilities" of docs/architecture.md.
 */
import type { ResourceName } from '../model/resources.ts';
import { addDays, type Clock, type Day, dayMs, parseInstant, startOfDay, systemClock } from '../model/time.ts';
import type { Client } from './client.ts';
import type { Page } from './envelope.ts';
import { NotTheApi, PageTooLarge, RefusedInput, ServerFailed } from './errors.ts';
import { type DateFormat, dateRange, type ListOptions } from './list-query.ts';
import { probeDays } from './probe-days.ts';
import {
  agrees,
  type RangeAnswer,
  type RangeEnd,
  type RangeRules,
  rulesFrom,
  type Sighting,
} from './range-evidence.ts';
import type { RateLimit } from './rate-pace.ts';

export interface Capabilities {
  /** Most records on a page. */
  readonly pageSize: number;
  /** The format in which `date` takes a range; `none` where ranges do not work, or nothing shows that they do. */
  readonly ranges: DateFormat | 'none';
  /** Whether the last day of a range belongs to it. */
  readonly rangeEnd: RangeEnd;
  /** Minutes by which the server's days begin before UTC's: 60 where its clocks read UTC+1. */
  readonly dayShiftMinutes: number | 'unknown';
  /** Whether lists come in the order asked for. */
  readonly sorts: 'kept' | 'ignored' | 'unknown';
  /** The server's clock less ours, ms; undefined where it does not tell it. */
  readonly clockDifferenceMs?: number;
  readonly rateLimit?: RateLimit;
  /** What could not be measured, and why, for `doctor`. */
  readonly notes: readonly string[];
}

export interface MeasureOptions {
  /** Of another resource of the same server: what is server-wide is checked instead of measured anew. */
  readonly known?: Capabilities | undefined;
  /** Page size to begin with; 1,000 where it is left out. */
  readonly pageSize?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Records asked for where the first and the last few are all that matters. */
const sampleSize = 100;
/** Fewer tries than usual: a server that fails on ranges fails on every one. */
const patience = { attempts: 4 };
/** No record was created on it. */
const farDay = '2099-01-01' as Day;

/**
 * Measures the server by one of its lists: 8 requests at most where the first page size is taken, 3 or 4 where `known`
 * holds. Throws what `Client.list` throws where the plain list cannot be read.
 */
export async function measureCapabilities(
  client: Client,
  resource: ResourceName,
  signal?: AbortSignal,
  options: MeasureOptions = {},
): Promise<Capabilities> {
  const { known, clock = systemClock, pageSize: first = 1_000 } = options;
  const notes: string[] = [];
  const newest = await largestPage(client, resource, first, signal);
  const asked = clock.now();
  const pageSize = pageSizeOf(newest);
  const oldest = await client.list(resource, ordered('asc', Math.min(pageSize, sampleSize)), signal);
  const sorts = sortsOf(newest, oldest);
  const serverNow = newest.serverTime ?? asked;
  const survey: Survey = {
    client,
    resource,
    signal,
    sorted: sorts === 'kept',
    total: newest.total,
    pageSize,
    seen: [...sightingsIn(newest), ...sightingsIn(oldest)],
    days: [],
  };
  const dense = sorts === 'kept' && newest.total > newest.records.length && spanOf(oldest) < dayMs;
  survey.days.push(...probeDays(survey.seen, serverNow, dense));
  const ranges = await measureRanges(survey, known, notes);
  const rateLimit = client.rateLimit();
  // The `Date` header is cut to seconds: half a second is its mean error.
  const clockDifferenceMs =
    newest.serverTime === undefined
      ? undefined
      : Math.round(newest.serverTime + 500 - (asked - newest.milliseconds / 2));
  return {
    pageSize,
    ...ranges,
    sorts,
    ...(clockDifferenceMs === undefined ? {} : { clockDifferenceMs }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
    notes,
  };
}

function ordered(direction: 'asc' | 'desc', paginate: number): ListOptions {
  return { sorts: [{ key: 'created_at', direction }], paginate };
}

/** The newest records, on the largest page that the server gives: a refused or unreadably large one is halved. */
async function largestPage(
  client: Client,
  resource: ResourceName,
  first: number,
  signal: AbortSignal | undefined,
): Promise<Page> {
  for (let size = first; ; size = Math.floor(size / 2)) {
    try {
      return await client.list(resource, ordered('desc', size), signal);
    } catch (error) {
      const smaller = error instanceof RefusedInput || error instanceof PageTooLarge;
      if (!smaller || size <= 1) throw error;
    }
  }
}

/** What the server says, unless what it sends says otherwise. */
function pageSizeOf(page: Page): number {
  const got = page.records.length;
  return page.lastPage > 1 && got > 0 ? Math.min(page.perPage, got) : page.perPage;
}

function sightingsIn(page: Page): Sighting[] {
  return page.records.flatMap((record) => {
    const at = parseInstant(record['created_at']);
    return at === undefined ? [] : [{ id: record['id'], at }];
  });
}

function spanOf(page: Page): number {
  const times = sightingsIn(page).map(({ at }) => at);
  return times.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...times) - Math.min(...times);
}

function sortsOf(newest: Page, oldest: Page): Capabilities['sorts'] {
  const falling = sightingsIn(newest).map(({ at }) => at);
  const rising = sightingsIn(oldest).map(({ at }) => at);
  if (new Set([...falling, ...rising]).size < 2) return 'unknown';
  const falls = falling.every((at, index) => index === 0 || at <= (falling[index - 1] ?? at));
  const rises = rising.every((at, index) => index === 0 || at >= (rising[index - 1] ?? at));
  return falls && rises && (rising[0] ?? 0) < (falling[0] ?? 0) ? 'kept' : 'ignored';
}

interface Survey {
  readonly client: Client;
  readonly resource: ResourceName;
  readonly signal: AbortSignal | undefined;
  readonly sorted: boolean;
  readonly total: number;
  readonly pageSize: number;
  /** Every record whose creation time was seen. */
  readonly seen: Sighting[];
  readonly days: Day[];
}

type Ranges = Pick<Capabilities, 'ranges' | 'rangeEnd' | 'dayShiftMinutes'>;

async function measureRanges(survey: Survey, known: Capabilities | undefined, notes: string[]): Promise<Ranges> {
  const [day, other] = survey.days;
  const unknown = { ranges: 'none', rangeEnd: 'unknown', dayShiftMinutes: 'unknown' } as const;
  if (day === undefined) {
    notes.push(`${survey.resource}: no record with a creation time, so date ranges could not be tried`);
    return known === undefined
      ? unknown
      : { ranges: known.ranges, rangeEnd: known.rangeEnd, dayShiftMinutes: known.dayShiftMinutes };
  }
  const formats: readonly DateFormat[] = known?.ranges === 'dmy' ? ['dmy', 'iso'] : ['iso', 'dmy'];
  for (const format of formats) {
    const answer = await provenRange(survey, day, format);
    if (answer === undefined) continue;
    const server = known === undefined ? undefined : { end: known.rangeEnd, shiftMinutes: known.dayShiftMinutes };
    if (
      server !== undefined &&
      server.end !== 'unknown' &&
      known?.ranges === format &&
      agrees(server, [answer], survey.seen)
    ) {
      return { ranges: format, rangeEnd: server.end, dayShiftMinutes: server.shiftMinutes };
    }
    const rules = await measureRules(survey, day, other, format, answer);
    if (rules.end === 'unknown') notes.push(`${survey.resource}: it is not clear whether a range holds its last day`);
    if (rules.shiftMinutes === 'unknown')
      notes.push(`${survey.resource}: it is not clear when the server's days begin`);
    return { ranges: format, rangeEnd: rules.end, dayShiftMinutes: rules.shiftMinutes };
  }
  notes.push(`${survey.resource}: date ranges do not work; everything is read as one`);
  return unknown;
}

/** Asks for a range; undefined where the server refuses it, or fails. */
async function askRange(
  survey: Survey,
  from: Day,
  to: Day,
  format: DateFormat,
  direction: 'asc' | 'desc' = 'asc',
): Promise<{ readonly page: Page; readonly answer: RangeAnswer } | undefined> {
  const { client, resource, sorted, signal } = survey;
  try {
    const options: ListOptions = {
      ...(sorted ? ordered(direction, survey.pageSize) : { paginate: survey.pageSize }),
      date: dateRange(from, to, format),
    };
    const page = await client.list(resource, options, signal, patience);
    const found = sightingsIn(page);
    survey.seen.push(...found);
    const part = direction === 'asc' ? 'first' : 'last';
    const extent = page.lastPage === 1 ? 'all' : sorted ? part : 'some';
    return { page, answer: { from, to, found, extent } };
  } catch (error) {
    const refused = error instanceof RefusedInput || error instanceof NotTheApi;
    if (refused || (error instanceof ServerFailed && error.status !== 429)) return undefined;
    throw error;
  }
}

/**
 * The answer to the day and the one after it, where it proves that ranges of the format work: it holds records, all of
 * them of about these days, and not simply everything.
 */
async function provenRange(survey: Survey, day: Day, format: DateFormat): Promise<RangeAnswer | undefined> {
  // The record may be on the next day by the server's clocks: then the wider range has it.
  for (const [from, to] of [
    [day, addDays(day, 1)],
    [addDays(day, -1), addDays(day, 2)],
  ] as const) {
    const asked = await askRange(survey, from, to, format);
    if (asked === undefined) return undefined;
    const { page, answer } = asked;
    if (page.records.length === 0) continue;
    const near = answer.found.every(({ at }) => at >= startOfDay(from) - dayMs && at < startOfDay(to) + 2 * dayMs);
    if (!near || answer.found.length < page.records.length) return undefined;
    if (page.total < survey.total) return answer;
    // All records lie in the range, or ranges are ignored: only one without records tells.
    const far = await askRange(survey, farDay, addDays(farDay, 1), format);
    return far?.page.total === 0 ? answer : undefined;
  }
  return undefined;
}

/** Asks for single days: which rule the range's end follows, and when days begin, in one season and the other. */
async function measureRules(
  survey: Survey,
  day: Day,
  other: Day | undefined,
  format: DateFormat,
  pair: RangeAnswer,
): Promise<RangeRules> {
  const single = await askRange(survey, day, day, format);
  if (single === undefined) return { end: 'unknown', shiftMinutes: 'unknown' };
  const answers = [pair, single.answer];
  const inclusive = single.answer.found.length > 0;
  // Where the day itself came whole, its last records show its end; else those of the day up to the next midnight do.
  const cut = inclusive ? single.answer : pair;
  if (cut.extent === 'first') {
    const last = await askRange(survey, cut.from, cut.to, format, 'desc');
    if (last !== undefined) answers.push(last.answer);
  }
  const here = rulesFrom(answers, survey.seen);
  if (other === undefined || here.end === 'unknown' || here.shiftMinutes === 'unknown') {
    // Clocks that were seen in one season only may stand differently in the other.
    return { end: here.end, shiftMinutes: 'unknown' };
  }
  const to = here.end === 'inclusive' ? other : addDays(other, 1);
  const first = await askRange(survey, other, to, format);
  const last = first?.answer.extent === 'first' ? await askRange(survey, other, to, format, 'desc') : undefined;
  const there = rulesFrom(
    [first, last].flatMap((each) => (each === undefined ? [] : [each.answer])),
    survey.seen,
    here.end,
  );
  return { end: here.end, shiftMinutes: there.shiftMinutes === here.shiftMinutes ? here.shiftMinutes : 'unknown' };
}
