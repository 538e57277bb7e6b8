/**
 * What a server can do, measured at first contact in a few requests. Whatever the responses do not prove is `unknown` or
 * `none`, which costs requests later and never records. Section "Capabilities" of docs/architecture.md.
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
import { type RequestPage, Reach, readingRecords, readPage } from './narrow.ts';
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
  /** Most records on a page. */
  readonly pageSize: number;
  /** Records beyond which pages of a list were seen to show nothing more, though there is more; undefined where none was. */
  readonly depth?: number;
  /** The format in which `date` takes a range; `none` where ranges do not work, or nothing shows that they do. */
  readonly ranges: DateFormat | 'none';
  /** Whether the last day of a range belongs to it. */
  readonly rangeEnd: RangeEnd;
  /** Minutes by which the days of ranges begin before those of creation times as they are written: 60 where clocks read UTC+1 and times are in UTC. */
  readonly dayShiftMinutes: number | 'unknown';
  /** Whether lists come in the order requested. */
  readonly sorts: 'kept' | 'ignored' | 'unknown';
  /** The server's clock less ours, ms; undefined where it sends none. */
  readonly clockDifferenceMs?: number;
  readonly rateLimit?: RateLimit;
  /** What could not be measured, and why, for `doctor`. */
  readonly notes: readonly string[];
}

type MeasuredClient = Pick<Client, 'list'> & Partial<Pick<Client, 'rateLimit' | 'maxBodyBytes'>>;

interface MeasureOptions {
  /** Of another resource of the same server: what is server-wide is checked instead of measured anew. */
  readonly known?: Capabilities | undefined;
  /** Of this very list, measured before: a list that shows nothing proves nothing against it. */
  readonly before?: Capabilities | undefined;
  /** Page size to begin with; 1,000 where it is left out. */
  readonly pageSize?: number | undefined;
  readonly clock?: Clock | undefined;
}

/** Records requested where the first and the last few are all that matters. */
const sampleSize = 100;
/** A server that fails on ranges fails on every one, also where a page that failed is narrowed. */
const patience = { pageAttempts: 1 };
/** No record was created on it. */
const farDay = '2099-01-01' as Day;

/**
 * Measures the server by one of its lists: 8 requests at most where the first page size is taken, 3 or 4 where `known`
 * holds. Throws what `Client.list` throws where the plain list cannot be read.
 */
export async function measureCapabilities(
  client: MeasuredClient,
  resource: ResourceName,
  signal?: AbortSignal,
  options: MeasureOptions = {},
): Promise<Capabilities> {
  const { known, before, clock = systemClock, pageSize: first = 1_000 } = options;
  const notes: string[] = [];
  const reach = new Reach();
  // A few records first: they show how many are too much for one page.
  const room = new Room(client.maxBodyBytes);
  const measured: MeasuredClient = {
    ...client,
    list: async (...requested) => {
      const page = await client.list(...requested);
      room.note(page);
      return page;
    },
  };
  const list: Measured = { client: measured, resource, reach, signal };
  const { page: oldest } = await largestPage(list, 'asc', Math.min(first, sampleSize));
  const most = Math.min(first, room.records, reach.size);
  const { page: newest, size } = await largestPage(list, 'desc', most);
  const now = clock.now();
  const clockDifferenceMs = serverAheadOf(newest, now);
  const readable = reach.size === Infinity ? pageSizeOf(newest) : await largestReadable({ ...list, client });
  const pageSize = Math.min(readable, room.records);
  const sorts = sortsOf(newest, oldest);
  const survey: Survey = {
    ...list,
    client,
    sorted: sorts === 'kept',
    total: newest.total,
    pageSize,
    now: now + (clockDifferenceMs ?? 0),
    seen: [...observationsIn(newest), ...observationsIn(oldest)],
  };
  // A list that shows nothing, as in a deploy, says nothing against what was measured when it did; a refusal does.
  if (survey.seen.length === 0 && before !== undefined) {
    return { ...before, pageSize: Math.min(before.pageSize, size), ...(await measureRanges(survey, before, notes)) };
  }
  const ranges = await measureRanges(survey, known, notes);
  const rateLimit = client.rateLimit?.();
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

/** One list of the server, while it is measured. */
interface Measured {
  readonly client: MeasuredClient;
  readonly resource: ResourceName;
  readonly reach: Reach;
  readonly signal: AbortSignal | undefined;
}

/**
 * The records at that end of the list, on the largest page that the server gives, in parts and without what cannot be read where it
 * cannot make it whole: a refused one is halved.
 */
async function largestPage(
  { client, resource, reach, signal }: Measured,
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

/** Sizes tried between one whose pages come and one whose pages fail: a page more by a half is a third fewer for good. */
const sizesBetween = 2;

/** Halving has found a size of pages that the host can make; it may well make larger ones. */
async function largestReadable({ client, resource, reach, signal }: Measured): Promise<number> {
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

/** More than this on a page makes nothing quicker: it is held several times over while it is read. */
const usualPageBytes = 8 * 1_048_576;

/** How many records may be on a page, by the longest that pages have shown on average, so that it is not too large. */
class Room {
  readonly #bytes: number;
  #recordBytes = 0;

  constructor(maxBodyBytes = Infinity) {
    this.#bytes = Math.min(usualPageBytes, maxBodyBytes / 2);
  }

  note({ text, records }: Page): void {
    if (records.length > 0) this.#recordBytes = Math.max(this.#recordBytes, text.length / records.length);
  }

  get records(): number {
    return Math.max(1, Math.floor(this.#bytes / this.#recordBytes));
  }
}

/** What the server says, unless what it sends says otherwise. */
function pageSizeOf(page: Page): number {
  const got = page.records.length;
  return page.lastPage > 1 && got > 0 ? Math.min(page.perPage, got) : page.perPage;
}

/** By the clock that a time is written with: its text says in which window a record is, whatever the offset behind it. */
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

interface Survey extends Measured {
  readonly sorted: boolean;
  readonly total: number;
  readonly pageSize: number;
  readonly now: number;
  /** Every record whose creation time was seen. */
  readonly seen: Observation[];
}

type Ranges = Pick<Capabilities, 'ranges' | 'rangeEnd' | 'dayShiftMinutes'>;

async function measureRanges(survey: Survey, known: Capabilities | undefined, notes: string[]): Promise<Ranges> {
  const { resource } = survey;
  const [first, second] = planProbes(survey);
  const unknown = { ranges: 'none', rangeEnd: 'unknown', dayShiftMinutes: 'unknown' } as const;
  if (first === undefined) {
    notes.push(`${resource}: no record with a creation time, so date ranges could not be tried`);
    if (known === undefined || known.ranges === 'none') return unknown;
    // That none is in a range proves nothing; that the server fails on one does.
    if ((await requestRange(survey, farDay, addDays(farDay, 1), known.ranges)) === undefined) return unknown;
    return { ranges: known.ranges, rangeEnd: known.rangeEnd, dayShiftMinutes: known.dayShiftMinutes };
  }
  const formats: readonly DateFormat[] = known?.ranges === 'dmy' ? ['dmy', 'iso'] : ['iso', 'dmy'];
  for (const format of formats) {
    const proof = await provenRange(survey, first, format);
    if (proof === undefined) continue;
    const { response } = proof;
    const rules = known?.ranges === format ? rulesOf(known) : undefined;
    // What another resource has shown of the same server holds here, too, unless this response speaks against it.
    if (rules !== undefined && rules.end !== 'unknown' && agrees(rules, [response], survey.seen)) {
      return { ranges: format, rangeEnd: rules.end, dayShiftMinutes: rules.shiftMinutes };
    }
    const { end, shiftMinutes } = await measureRules(survey, proof, second, format);
    if (end === 'unknown') notes.push(`${resource}: it is not clear whether a range holds its last day`);
    if (shiftMinutes === 'unknown') notes.push(`${resource}: it is not clear when the server's days begin`);
    return { ranges: format, rangeEnd: end, dayShiftMinutes: shiftMinutes };
  }
  notes.push(`${resource}: date ranges do not work; everything is read as one`);
  return unknown;
}

function rulesOf({ rangeEnd, dayShiftMinutes }: Capabilities): RangeRules {
  return { end: rangeEnd, shiftMinutes: dayShiftMinutes };
}

/** Requests a range; undefined where the server refuses it, or fails. */
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
    // One record that cannot be read says nothing of ranges.
    const requestOne: RequestPage = (page, paginate, requested = patience) =>
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

/** Requests a range and, where its records come in order and not all on one page, for its end, too. */
async function requestBothEnds(survey: Survey, from: Day, to: Day, format: DateFormat): Promise<RangeResponse[]> {
  const first = await requestRange(survey, from, to, format);
  if (first === undefined) return [];
  const last = first.response.extent === 'first' ? await requestRange(survey, from, to, format, 'desc') : undefined;
  return last === undefined ? [first.response] : [first.response, last.response];
}

interface Proof {
  readonly response: RangeResponse;
  /** A day with records, the one that shows most. */
  readonly day: Day;
}

/**
 * A response that proves that ranges of the format work: it holds records, all of them of about the days requested, and
 * not simply everything.
 */
async function provenRange(survey: Survey, probe: Probe, format: DateFormat): Promise<Proof | undefined> {
  const day = probe.kind === 'sample' ? probe.otherwise : probe.day;
  const ranges: readonly (readonly [Day, Day])[] = [
    probe.kind === 'sample' ? [probe.from, probe.to] : [day, addDays(day, 1)],
    // The records may be on the day before or after by the server's clocks: then the wider range has them.
    [addDays(day, -1), addDays(day, 2)],
  ];
  for (const [from, to] of ranges) {
    const requested = await requestRange(survey, from, to, format);
    if (requested === undefined) return undefined;
    const { page, response } = requested;
    if (page.records.length === 0) continue;
    const near = response.found.every(({ at }) => at >= startOfDay(from) - dayMs && at < startOfDay(to) + 2 * dayMs);
    if (!near || response.found.length < page.records.length) return undefined;
    const isSample = probe.kind === 'sample' && from === probe.from;
    const proof = { response, day: isSample ? bestDayOf(response.found, from) : day };
    if (page.total < survey.total) return proof;
    // All records lie in the range, or ranges are ignored: only one without records shows which.
    const far = await requestRange(survey, farDay, addDays(farDay, 1), format);
    return far?.page.total === 0 ? proof : undefined;
  }
  return undefined;
}

/** Requests single days: which rule the end of a range follows, and when days begin, in one season and the other. */
async function measureRules(
  survey: Survey,
  { response: proof, day }: Proof,
  second: Probe | undefined,
  format: DateFormat,
): Promise<RangeRules> {
  const responses = [proof, ...(await requestBothEnds(survey, day, day, format))];
  // An exclusive end leaves nothing of a day by itself; then the day up to the next midnight shows when it begins.
  if (responses.every((response) => response.to !== day || response.found.length === 0)) {
    if (proof.from !== day) responses.push(...(await requestBothEnds(survey, day, addDays(day, 1), format)));
    else if (proof.extent === 'first') {
      const last = await requestRange(survey, proof.from, proof.to, format, 'desc');
      if (last !== undefined) responses.push(last.response);
    }
  }
  const here = rulesFrom(responses, survey.seen);
  // Clocks that were seen in one season only may stand differently in the other.
  if (second === undefined || here.end === 'unknown' || here.shiftMinutes === 'unknown') {
    return { end: here.end, shiftMinutes: 'unknown' };
  }
  const there = await measureShift(survey, second, format, here.end);
  return { end: here.end, shiftMinutes: there === here.shiftMinutes ? there : 'unknown' };
}

/** When days begin, where it is known whether a range holds its last day. */
async function measureShift(
  survey: Survey,
  probe: Probe,
  format: DateFormat,
  end: Exclude<RangeEnd, 'unknown'>,
): Promise<RangeRules['shiftMinutes']> {
  const sample = probe.kind === 'sample' ? await requestRange(survey, probe.from, probe.to, format) : undefined;
  const found = sample?.response.found ?? [];
  const otherwise = probe.kind === 'day' ? probe.day : probe.otherwise;
  const day = probe.kind === 'day' || found.length === 0 ? otherwise : bestDayOf(found, probe.from);
  const responses = await requestBothEnds(survey, day, end === 'inclusive' ? day : addDays(day, 1), format);
  if (responses.length === 0) return 'unknown';
  return rulesFrom(sample === undefined ? responses : [sample.response, ...responses], survey.seen, end).shiftMinutes;
}
