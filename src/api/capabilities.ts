/**
 * Measures what a server can do, in a few requests at first contact. Whatever the responses do not prove is `unknown` or
 * `none`: that costs requests later, but never records. Section "Capabilities" of docs/architecture.md.
 */
import type { ResourceName } from '../model/resources.ts';
import {
  addDays,
  type Clock,
  type Day,
  dayMs,
  parseInstant,
  parseWritten,
  startOfDay,
  systemClock,
} from '../model/time.ts';
import type { Client } from './client.ts';
import { type Page, serverAheadOf } from './envelope.ts';
import { isPageFailure, NotTheApi, RefusedInput, ServerFailed } from './errors.ts';
import { type DateFormat, dateRange, type ListOptions } from './list-query.ts';
import { countOf, type RequestPage, Reach, readingRecords, readPage } from './narrow.ts';
import {
  agrees,
  bestDayOf,
  type Observation,
  planProbes,
  type Probe,
  type RangeEnd,
  type RangeResponse,
  type RangeRules,
  rulesFrom,
} from './range-evidence.ts';
import type { RateLimit } from './rate.ts';

export interface Capabilities {
  /** The most records on a page. */
  readonly pageSize: number;
  /** The size that was requested before the host turned out not to make such pages; undefined if it made them. */
  readonly failedSize?: number;
  /** Number of records after which pages of a list show nothing, although there are more; undefined if no such bound was seen. */
  readonly depth?: number;
  /** The format in which `date` takes a range; `none` if ranges do not work or nothing shows that they do. */
  readonly ranges: DateFormat | 'none';
  /** Whether the last day of a range belongs to it. */
  readonly rangeEnd: RangeEnd;
  /**
   * How many minutes earlier the days of ranges begin than the days of creation times as they are written: 60 if the
   * server's clocks read UTC+1 and its times are in UTC.
   */
  readonly dayShiftMinutes: number | 'unknown';
  /** Whether lists come in the requested order. */
  readonly sorts: 'kept' | 'ignored' | 'unknown';
  /** The server's clock minus ours, ms; undefined if it sends no time. */
  readonly clockDifferenceMs?: number;
  readonly rateLimit?: RateLimit;
  /** What could not be measured, and why, for `doctor`. */
  readonly notes: readonly string[];
}

type MeasuredClient = Pick<Client, 'list'> & Partial<Pick<Client, 'rateLimit' | 'maxBodyBytes'>>;

interface MeasureOptions {
  /** Measured on another resource of the same server: what holds for the whole server is checked, not measured again. */
  readonly known?: Capabilities | undefined;
  /** Measured on this list before. They still hold if the list shows nothing now. */
  readonly before?: Capabilities | undefined;
  /** The page size to begin with; 1,000 by default. */
  readonly pageSize?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Records to request when only the first and last few matter. */
const sampleSize = 100;
/** A server may fail on all ranges of a format. Until one has worked, repeating a range, or a smaller page of it, is no use. */
const oncePerRange = { pageAttempts: 1 };
/** A day on which no record was created. */
const farDay = '2099-01-01' as Day;

/**
 * Measures the server by one of its lists: in at most 8 requests if the server accepts the first page size, in 3 or 4 if
 * `known` still holds. Throws what `Client.list` throws if the plain list cannot be read.
 */
export async function measureCapabilities(
  client: MeasuredClient,
  resource: ResourceName,
  signal?: AbortSignal,
  options: MeasureOptions = {},
): Promise<Capabilities> {
  const { known, before, clock = systemClock, pageSize: firstSize = 1_000 } = options;
  const notes: string[] = [];
  const reach = new Reach();
  const bytes = new PageBytes(client.maxBodyBytes);
  const measured: MeasuredClient = {
    ...client,
    list: async (...requested) => {
      const page = await client.list(...requested);
      bytes.note(page);
      return page;
    },
  };
  const list: MeasuredList = { client: measured, resource, reach, signal };
  // The few oldest records come first: they show how many are too many for one page.
  const { page: oldest } = await largestPage(list, 'asc', Math.min(firstSize, sampleSize));
  const largest = Math.min(firstSize, bytes.maxRecords, reach.size);
  const { page: newest, size } = await largestPage(list, 'desc', largest);
  const now = clock.now();
  const clockDifferenceMs = serverAheadOf(newest, now);
  const readable = reach.size === Infinity ? pageSizeOf(newest) : await largestReadable({ ...list, client });
  const pageSize = Math.min(readable, bytes.maxRecords);
  const wanted = Math.min(firstSize, bytes.maxRecords);
  const sorts = sortsOf(newest, oldest);
  const survey: Survey = {
    ...list,
    client,
    sorted: sorts === 'kept',
    total: newest.total,
    pageSize,
    now: now + (clockDifferenceMs ?? 0),
    seen: [...observationsIn(newest), ...observationsIn(oldest)],
    rangesWork: false,
  };
  // An empty list (during a deployment, say) does not contradict what was measured before; a refused range does.
  if (survey.seen.length === 0 && before !== undefined) {
    return { ...before, pageSize: Math.min(before.pageSize, size), ...(await measureRanges(survey, before, notes)) };
  }
  const ranges = await measureRanges(survey, known, notes);
  const rateLimit = client.rateLimit?.();
  return {
    pageSize,
    ...(reach.size < Infinity && pageSize < wanted ? { failedSize: wanted } : {}),
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

/** The list that is measured. */
interface MeasuredList {
  readonly client: MeasuredClient;
  readonly resource: ResourceName;
  readonly reach: Reach;
  readonly signal: AbortSignal | undefined;
}

/**
 * Returns the records at one end of the list, on the largest page that the server accepts: a refused size is halved. A page
 * that the server cannot make whole comes in parts, without the records that cannot be read.
 */
async function largestPage(
  { client, resource, reach, signal }: MeasuredList,
  direction: 'asc' | 'desc',
  first: number,
): Promise<{ readonly page: Page; readonly size: number }> {
  const requestOne: RequestPage = (page, paginate, patience) =>
    client.list(resource, { ...ordered(direction, paginate), page }, signal, patience);
  for (let size = first; ; size = Math.floor(size / 2)) {
    try {
      return { page: await readPage(readingRecords(requestOne), 1, size, reach), size };
    } catch (error) {
      if (!(error instanceof RefusedInput) || size <= 1) throw error;
    }
  }
}

/** How many sizes to try between one that works and one that fails. Pages larger by half mean a third fewer requests. */
const sizesBetween = 2;

/** Returns a page size that the host can serve. Halving has found one, but the host may well serve larger pages. */
async function largestReadable({ client, resource, reach, signal }: MeasuredList): Promise<number> {
  let fails = reach.fails;
  for (let tried = 0; tried < sizesBetween && fails - reach.size > 1; tried += 1) {
    const size = Math.floor((reach.size + fails) / 2);
    try {
      await client.list(resource, ordered('desc', size), signal, { pageAttempts: 1 });
      reach.size = size;
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      fails = size;
    }
  }
  return reach.size;
}

/** Larger pages are not faster, and memory holds a page several times over while it is read. */
const usualPageBytes = 8 * 1_048_576;

/** Bounds the records on a page by the largest average record size seen so far, so that a page does not get too large. */
class PageBytes {
  readonly #maxBytes: number;
  #recordBytes = 0;

  constructor(maxBodyBytes = Infinity) {
    this.#maxBytes = Math.min(usualPageBytes, maxBodyBytes / 2);
  }

  note({ text, records }: Page): void {
    if (records.length > 0) this.#recordBytes = Math.max(this.#recordBytes, text.length / records.length);
  }

  get maxRecords(): number {
    return Math.max(1, Math.floor(this.#maxBytes / this.#recordBytes));
  }
}

/** The page size that the server states, unless it sends fewer records than that. Those that cannot be read count as sent. */
function pageSizeOf(page: Page): number {
  const got = page.records.length + countOf(page.unreadable ?? []);
  return page.lastPage > 1 && got > 0 ? Math.min(page.perPage, got) : page.perPage;
}

/** Reads creation times as they are written, without their offset: the written day decides in which window a record is. */
function observationsIn(page: Page): Observation[] {
  return page.records.flatMap((record) => {
    const at = parseWritten(record['created_at']);
    return at === undefined ? [] : [{ id: record['id'], at }];
  });
}

function sortsOf(newest: Page, oldest: Page): Capabilities['sorts'] {
  const [falling = [], rising = []] = [newest, oldest].map(({ records }) =>
    records.map((record) => parseInstant(record['created_at'])).filter((at) => at !== undefined),
  );
  if (new Set([...falling, ...rising]).size < 2) return 'unknown';
  const falls = falling.every((at, index) => index === 0 || at <= (falling[index - 1] ?? at));
  const rises = rising.every((at, index) => index === 0 || at >= (rising[index - 1] ?? at));
  return falls && rises && (rising[0] ?? 0) < (falling[0] ?? 0) ? 'kept' : 'ignored';
}

interface Survey extends MeasuredList {
  readonly sorted: boolean;
  readonly total: number;
  readonly pageSize: number;
  readonly now: number;
  /** Every record whose creation time was seen. */
  readonly seen: Observation[];
  /** Whether a range of days has shown that ranges work. */
  rangesWork: boolean;
}

type Ranges = Pick<Capabilities, 'ranges' | 'rangeEnd' | 'dayShiftMinutes'>;

async function measureRanges(survey: Survey, known: Capabilities | undefined, notes: string[]): Promise<Ranges> {
  const { resource } = survey;
  const [first, second] = planProbes(survey);
  const unknown = { ranges: 'none', rangeEnd: 'unknown', dayShiftMinutes: 'unknown' } as const;
  if (first === undefined) {
    notes.push(`${resource}: no record with a creation time, so date ranges could not be tried`);
    if (known === undefined || known.ranges === 'none') return unknown;
    // An empty range proves nothing; a range on which the server fails does.
    if ((await requestRange(survey, farDay, addDays(farDay, 1), known.ranges)) === undefined) return unknown;
    return { ranges: known.ranges, rangeEnd: known.rangeEnd, dayShiftMinutes: known.dayShiftMinutes };
  }
  const formats: readonly DateFormat[] = known?.ranges === 'dmy' ? ['dmy', 'iso'] : ['iso', 'dmy'];
  for (const format of formats) {
    const proof = await provenRange(survey, first, format);
    if (proof === undefined) continue;
    const { response } = proof;
    survey.rangesWork = true;
    const rules = known?.ranges === format ? rulesOf(known) : undefined;
    // What another resource of the same server has shown holds here, too, unless this response contradicts it.
    if (rules !== undefined && rules.end !== 'unknown' && agrees(rules, [response], survey.seen)) {
      return { ranges: format, rangeEnd: rules.end, dayShiftMinutes: rules.shiftMinutes };
    }
    const { end, shiftMinutes } = await measureRules(survey, proof, second, format);
    if (end === 'unknown') notes.push(`${resource}: it is not clear whether a range includes its last day`);
    if (shiftMinutes === 'unknown') notes.push(`${resource}: it is not clear when the server's days begin`);
    return { ranges: format, rangeEnd: end, dayShiftMinutes: shiftMinutes };
  }
  notes.push(`${resource}: date ranges do not work; everything is read as one`);
  return unknown;
}

function rulesOf({ rangeEnd, dayShiftMinutes }: Capabilities): RangeRules {
  return { end: rangeEnd, shiftMinutes: dayShiftMinutes };
}

/** Requests a range. Returns undefined if the server refuses it or fails. */
async function requestRange(
  survey: Survey,
  from: Day,
  to: Day,
  format: DateFormat,
  direction: 'asc' | 'desc' = 'asc',
): Promise<{ readonly page: Page; readonly response: RangeResponse } | undefined> {
  const { client, resource, sorted, signal } = survey;
  try {
    const options: ListOptions = {
      ...(sorted ? ordered(direction, survey.pageSize) : {}),
      date: dateRange(from, to, format),
    };
    // A record that cannot be read says nothing about ranges: readPage works around it.
    const atMost = survey.rangesWork ? undefined : oncePerRange;
    const requestOne: RequestPage = (page, paginate, requested = atMost) =>
      client.list(resource, { ...options, page, paginate }, signal, requested);
    const page = await readPage(readingRecords(requestOne), 1, survey.pageSize, survey.reach);
    const found = observationsIn(page);
    survey.seen.push(...found);
    const part = direction === 'asc' ? 'first' : 'last';
    const extent = page.lastPage === 1 ? 'all' : sorted ? part : 'some';
    return { page, response: { from, to, found, extent } };
  } catch (error) {
    const refused = error instanceof RefusedInput || error instanceof NotTheApi;
    if (refused || (error instanceof ServerFailed && error.status !== 429)) return undefined;
    throw error;
  }
}

/** Requests the first page of a range and, if its records come in order and do not fit on one page, its last records, too. */
async function requestBothEnds(survey: Survey, from: Day, to: Day, format: DateFormat): Promise<RangeResponse[]> {
  const first = await requestRange(survey, from, to, format);
  if (first === undefined) return [];
  const last = first.response.extent === 'first' ? await requestRange(survey, from, to, format, 'desc') : undefined;
  return last === undefined ? [first.response] : [first.response, last.response];
}

interface Proof {
  readonly response: RangeResponse;
  /** The day whose records show most. */
  readonly day: Day;
}

/**
 * Finds a response that proves that ranges in this format work: it holds records, all of about the requested days, and not
 * simply everything.
 */
async function provenRange(survey: Survey, probe: Probe, format: DateFormat): Promise<Proof | undefined> {
  const { otherwise } = probe;
  const ranges: readonly (readonly [Day, Day])[] = [
    probe.kind === 'sample' ? [probe.from, probe.to] : [probe.day, addDays(probe.day, 1)],
    // By the server's clocks, the records may be on the day before or after; the wider range then includes them.
    [addDays(otherwise, -1), addDays(otherwise, 2)],
  ];
  for (const [from, to] of ranges) {
    const requested = await requestRange(survey, from, to, format);
    if (requested === undefined) return undefined;
    const { page, response } = requested;
    if (page.records.length === 0) continue;
    const near = response.found.every(({ at }) => at >= startOfDay(from) - dayMs && at < startOfDay(to) + 2 * dayMs);
    if (!near || response.found.length < page.records.length) return undefined;
    const isFirst = from === ranges[0]?.[0];
    const first = probe.kind === 'sample' ? bestDayOf(response.found, otherwise) : probe.day;
    const proof = { response, day: isFirst ? first : otherwise };
    if (page.total < survey.total) return proof;
    // Either all records lie in the range, or the server ignores ranges. A range without records shows which.
    const far = await requestRange(survey, farDay, addDays(farDay, 1), format);
    return far?.page.total === 0 ? proof : undefined;
  }
  return undefined;
}

/** Finds out, by requesting single days in both seasons, whether a range includes its last day and when days begin. */
async function measureRules(
  survey: Survey,
  { response: proof, day }: Proof,
  second: Probe | undefined,
  format: DateFormat,
): Promise<RangeRules> {
  const responses = [proof, ...(await requestBothEnds(survey, day, day, format))];
  // With an exclusive end, a range from a day to itself is empty; the range to the next day then shows when it begins.
  if (responses.every((response) => response.to !== day || response.found.length === 0)) {
    if (proof.from !== day) responses.push(...(await requestBothEnds(survey, day, addDays(day, 1), format)));
    else if (proof.extent === 'first') {
      const last = await requestRange(survey, proof.from, proof.to, format, 'desc');
      if (last !== undefined) responses.push(last.response);
    }
  }
  const here = rulesFrom(responses, survey.seen);
  // With summer time, clocks seen in only one season may differ in the other.
  if (second === undefined || here.end === 'unknown' || here.shiftMinutes === 'unknown') {
    return { end: here.end, shiftMinutes: 'unknown' };
  }
  const there = await measureShift(survey, second, format, here.end);
  return { end: here.end, shiftMinutes: there === here.shiftMinutes ? there : 'unknown' };
}

/** Finds out when days begin, once it is known whether a range includes its last day. */
async function measureShift(
  survey: Survey,
  probe: Probe,
  format: DateFormat,
  end: Exclude<RangeEnd, 'unknown'>,
): Promise<RangeRules['shiftMinutes']> {
  const sample = probe.kind === 'sample' ? await requestRange(survey, probe.from, probe.to, format) : undefined;
  const day = probe.kind === 'day' ? probe.day : bestDayOf(sample?.response.found ?? [], probe.otherwise);
  const responses = await requestBothEnds(survey, day, end === 'inclusive' ? day : addDays(day, 1), format);
  if (responses.length === 0) return 'unknown';
  return rulesFrom(sample === undefined ? responses : [sample.response, ...responses], survey.seen, end).shiftMinutes;
}
