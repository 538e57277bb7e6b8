/**
 * The switches: everything that the API's reference leaves open, and every way to fail, in one table. The command
 * line's help, the control route's checks and the documentation are made from it.
 */
import { suggestion, UsageError } from '../model/errors.ts';
import { type ReadFault, readFaults, type WriteFault, writeFaults } from './faults.ts';

/** How a switch's value is read: `probability` is 0 to 1, `count` a whole number, `amount` any number from 0. */
type SwitchKind = 'probability' | 'count' | 'amount' | 'minutes' | 'flag' | 'choice' | 'text';

export interface Switch<T extends string | number | boolean = string | number | boolean> {
  readonly kind: SwitchKind;
  readonly default: T;
  readonly meaning: string;
  /** The words that a `choice` accepts; the first is the default. */
  readonly values: readonly string[];
}

function numeric(kind: SwitchKind, meaning: string, value: number): Switch<number> {
  return { kind, default: value, meaning, values: [] };
}
const probability = (meaning: string, value = 0): Switch<number> => numeric('probability', meaning, value);
const count = (meaning: string, value = 0): Switch<number> => numeric('count', meaning, value);
const amount = (meaning: string, value = 0): Switch<number> => numeric('amount', meaning, value);
const flag = (meaning: string, value = false): Switch<boolean> => ({
  kind: 'flag',
  default: value,
  meaning,
  values: [],
});
const text = (meaning: string, value = ''): Switch<string> => ({ kind: 'text', default: value, meaning, values: [] });
function choice<const V extends readonly [string, ...string[]]>(values: V, meaning: string): Switch<V[number]> {
  return { kind: 'choice', default: values[0], meaning, values };
}

const lists = {
  page_max: count('largest page that is served; 0: no bound'),
  page_over: choice(
    ['clamp', 'refuse', 'ignore'],
    'a page size over page_max is cut to it, refused with 422, or every page size is ignored',
  ),
  depth: count('records of a list beyond which its pages show none; 0: no bound'),
  depth_over: choice(['empty', 'refuse', 'error'], 'a page beyond the depth is empty, refused with 422, or gets 500'),
  sorts: choice(['kept', 'ignored', 'random'], 'sorts are kept, ignored (by id), or another order on every request'),
  sort_ties: choice(['stable', 'random'], 'equal sort values come by id, or in another order on every request'),
  unknown_keys: choice(['refuse', 'ignore'], 'filter, sort and include keys that are not known: 400, or left out'),
  includes_refused: text('include names, separated by commas, that get 400'),
  includes_ignored: text('include names, separated by commas, that are left out of the response'),
  filter_errors: text('filter keys, separated by commas, that get 500'),
  subscribed_filter: choice(['equal', 'inverted'], 'filter[is_subscribed]=0 finds 0, or finds 1'),
} as const;

/** What the host cannot do, and what stands between it and the client. */
const host = {
  page_breaks_over: count('records beyond which the host fails to make a page; 0: none'),
  page_breaks_bytes: count('bytes beyond which the host fails to make a body; 0: none'),
  poisoned: text('records that make every response with them fail, separated by commas: users:17,emails:4'),
  page_breaks_how: choice(
    ['error_500', 'error_502', 'html', 'hang', 'truncated', 'reset_middle', 'empty_body', 'says_so'],
    'how a response fails that the host cannot make: as the read fault of that name, or with a message and 200',
  ),
  cache_seconds: amount('a cache in front gives the same response to the same GET for so long, with Age; 0: none'),
  cache_obeys: flag('the cache lets requests with Cache-Control: no-cache pass', true),
  compression: choice(
    ['none', 'gzip', 'br', 'deflate', 'deflate_raw', 'zstd'],
    'bodies come compressed, though nothing requests it',
  ),
  byte_order_mark: flag('bodies begin with a byte order mark'),
  data_as_object: flag('data of a list is an object whose keys are numbers'),
} as const;

const totals = {
  totals_more: count('how much every total is too large'),
  totals_cap: count('largest total that is given; 0: no bound'),
  totals_cached: amount("seconds of the sandbox's clock for which a total is remembered"),
  deletes: choice(['gone', 'counted'], 'a deleted record is gone, or totals go on counting it and nothing shows it'),
  pages_hide: text('records that totals and offsets count and pages leave out, separated by commas: users:17,emails:4'),
  empty_lists: text('resources, separated by commas, whose lists show nothing and count 0'),
  lists_of: text('lists that show the records of another, separated by commas: users:emails'),
  same_ids: text('records that lists show under the id of another, separated by commas: users:17:18 is 17 shown as 18'),
  missing_users: flag('every single user gets 404'),
} as const;

const dates = {
  date_format: choice(['both', 'iso', 'dmy'], 'how the days of a range are read: YYYY-MM-DD, DD-MM-YYYY or both'),
  date_unreadable: choice(
    ['refuse', 'error', 'ignore', 'empty'],
    'a day that cannot be read: 422, 500, as if not given, or no record found',
  ),
  date_ranges: choice(['on', 'ignored', 'error'], 'ranges work, are ignored, or get 500'),
  date_end: choice(
    ['midnight', 'exclusive', 'day'],
    'a range ends with midnight at the start of its last day, just before it, or with that whole day',
  ),
  timezone_minutes: { ...numeric('minutes', "how far the server's days lie from UTC; east is positive", 0) },
} as const;

const shapes = {
  numbers_as_strings: probability('a record has its numbers as text'),
  flags_as_booleans: probability('a record has its flags as true and false'),
  flags_as_strings: probability('a record has its flags as "0" and "1"'),
  empty_objects_as_arrays: probability('a record has its empty objects as []'),
  unknown_fields: probability('a record has fields that the reference does not name (always the same records)'),
  missing_fields: probability('a record lacks one of its fields (always the same records)'),
  answer_shape: choice(['data', 'bare', 'named'], 'one record comes as {"data": …}, bare, or as {"user": …}'),
  large_ids: flag('ids of records are served larger by 2^53'),
} as const;

const rules = {
  refusal_status: count('status of {"success": false} responses', 422),
  transactions: choice(
    ['shown', 'hidden'],
    'balance transactions come with a user who is requested with them, or never',
  ),
  transactions_delay: amount("seconds of the sandbox's clock before a balance transaction is shown"),
  description_max: count('characters of a balance transaction that are kept of its description; 0: all'),
  set_below_zero: choice(
    ['allowed', 'refused'],
    'a balance may be set to an amount below 0, or that is refused with 422',
  ),
  description_form: choice(
    ['plain', 'upper', 'escaped'],
    'the description of a balance transaction is kept as it came, in capitals, or with its HTML escaped',
  ),
  negative_balance: choice(
    ['allowed', 'refused', 'clamped'],
    'a balance may fall below 0, or the change is refused, or cut off at 0',
  ),
  balance_update: choice(
    ['made', 'lost'],
    'a change reaches the balance, or is recorded as a transaction and overwritten by another writer',
  ),
  delete_emails_with_user: flag("deleting a user deletes the user's emails"),
  forbidden: text('resources (packages) or operations (users.delete), separated by commas, that get 403'),
  maintenance: flag('everything gets 503 and Retry-After'),
} as const;

const limits = {
  rate_limit: count('requests a window; more get 429; 0: no limit'),
  rate_window: amount("length of the window in seconds of the sandbox's clock", 60),
  rate_headers: flag('responses carry X-RateLimit-Limit and X-RateLimit-Remaining', true),
  retry_after: choice(['seconds', 'date', 'none'], 'how Retry-After is written on 429 and 503'),
  retry_after_seconds: count('the wait that 503 and a drawn 429 name', 1),
  latency: amount('milliseconds before each response'),
  latency_jitter: amount('up to so many milliseconds more'),
} as const;

const churn = {
  churn_inserts: amount('records that appear before each list request, on average'),
  churn_updates: amount('records that change before each list request, on average'),
  churn_deletes: amount('records that go before each list request, on average'),
  churn_backdated: probability('a record that appears has its created_at in the past'),
  quiet_days: text('days without new records in the seed data, as 2025-12-20..2026-01-10; only at the start'),
  ties: probability('a new record has the created_at of the one before it', 0.02),
} as const;

const faults = {
  fault_streak: count('the same request fails at most so many times in a row; 0: no bound'),
  html_status: count('status of HTML pages', 502),
  html_content_type: text('content type of HTML pages', 'text/html; charset=UTF-8'),
  oversized_bytes: count('size of an oversized body', 70 * 1024 * 1024),
  late_commit_ms: count('how long a late write waits', 50),
} as const;

type FaultSwitches = { readonly [F in ReadFault as `read_${F}`]: Switch<number> } & {
  readonly [F in WriteFault as `write_${F}`]: Switch<number>;
};

const faultSwitches = Object.fromEntries([
  ...Object.entries(readFaults).map(([name, meaning]) => [`read_${name}`, probability(`GET: ${meaning}`)]),
  ...Object.entries(writeFaults).map(([name, meaning]) => [`write_${name}`, probability(`write: ${meaning}`)]),
]) as FaultSwitches;

/** Every switch by name, in the order in which they are listed. */
export const switches = {
  ...lists,
  ...host,
  ...totals,
  ...dates,
  ...shapes,
  ...rules,
  ...limits,
  ...churn,
  ...faults,
  ...faultSwitches,
} as const;

type SwitchName = keyof typeof switches;

export type Behaviour = {
  readonly [N in SwitchName]: (typeof switches)[N] extends Switch<infer T> ? T : never;
};

export const switchNames = Object.keys(switches) as SwitchName[];

/** Every switch at its default: no faults, stable data, everything by the reference. */
export const defaultBehaviour = Object.fromEntries(
  Object.entries(switches).map(([name, each]) => [name, each.default]),
) as unknown as Behaviour;

const flags = new Map<unknown, boolean>([
  ...[true, 'true', '1', 'on'].map((value) => [value, true] as const),
  ...[false, 'false', '0', 'off'].map((value) => [value, false] as const),
]);

function readValue(name: string, { kind, values }: Switch, value: unknown): string | number | boolean {
  const wrong = (why: string, advice?: string): UsageError =>
    new UsageError(`the sandbox's switch ${name} was set to ${JSON.stringify(value)}${why}`, { advice });
  if (kind === 'text' || kind === 'choice') {
    if (typeof value === 'string' && (kind === 'text' || values.includes(value))) return value;
    throw kind === 'text' ? wrong(', which is not text') : wrong('', `It takes: ${values.join(', ')}.`);
  }
  if (kind === 'flag') {
    const flag = flags.get(value);
    if (flag === undefined) throw wrong(', which is not true or false');
    return flag;
  }
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) throw wrong(', which is not a number');
  const isWhole = Number.isInteger(number);
  if (kind === 'minutes') {
    if (!isWhole || Math.abs(number) > 14 * 60) throw wrong(', which is not whole minutes from -840 to 840');
    return number;
  }
  if (kind === 'probability' && (number < 0 || number > 1)) throw wrong(', which is not between 0 and 1');
  if (kind === 'count' && !isWhole) throw wrong(', which is not a whole number');
  if (number < 0) throw wrong(', which is not 0 or more');
  return number;
}

/** Text is read as the switch's own kind, as flags of the command line have it. Throws a UsageError. */
export function readBehaviour(values: Readonly<Record<string, unknown>>): Partial<Behaviour> {
  const read: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined) continue;
    const each: Switch | undefined = name in switches ? switches[name as SwitchName] : undefined;
    if (each === undefined) {
      throw new UsageError(`the sandbox has no switch called "${name}"`, { advice: suggestion(name, switchNames) });
    }
    read[name] = readValue(name, each, value);
  }
  return read;
}

export const chaosNames = ['calm', 'rough', 'storm'] as const;
export type Chaos = (typeof chaosNames)[number];

/** What each is for, as the command line's help says it. */
export const chaosMeanings: Readonly<Record<Chaos, string>> = {
  calm: 'no faults, quiet data, everything by the reference',
  rough: 'a few of every hundred responses fail in some way, values change their form; the data stays quiet',
  storm: 'more of it, with a rate limit, hangs, shifted days and data that changes under the reader',
};

/** Switches as the flags of the command line have them. */
function preset(text: string): Partial<Behaviour> {
  const words = text.trim().split(/\s+/);
  return readBehaviour(Object.fromEntries(words.map((word) => word.split('='))));
}

const rough = preset(`
  page_max=500 sort_ties=random numbers_as_strings=0.2 flags_as_booleans=0.1 flags_as_strings=0.1
  empty_objects_as_arrays=0.3 unknown_fields=0.05 latency_jitter=3 fault_streak=3 read_error_500=0.01
  read_error_502=0.01 read_error_503=0.01 read_html=0.01 read_reset_before=0.01 read_reset_middle=0.01
  read_truncated=0.01 read_empty_body=0.01 write_error_500=0.01 write_error_503=0.01 write_reset_before=0.01
  write_commit_500=0.02 write_commit_reset=0.01 write_commit_truncated=0.01
`);

const storm = {
  ...rough,
  ...preset(`
  page_max=200 date_end=day timezone_minutes=330 rate_limit=600 rate_window=10 latency_jitter=10
  churn_inserts=0.1 churn_updates=0.2 churn_deletes=0.1 churn_backdated=0.2 read_error_500=0.02
  read_error_502=0.02 read_error_503=0.02 read_too_many=0.01 read_html=0.02 read_reset_before=0.02
  read_reset_middle=0.02 read_truncated=0.02 read_hang=0.002 read_empty_body=0.02 write_error_500=0.02
  write_error_502=0.02 write_too_many=0.02 write_html=0.02 write_hang=0.002 write_commit_500=0.04
  write_commit_html=0.02 write_commit_reset=0.03 write_commit_truncated=0.02 write_commit_hang=0.002
  write_commit_late=0.01
`),
};

const presets: Readonly<Record<Chaos, Partial<Behaviour>>> = { calm: {}, rough, storm };

/** Every switch as the preset has it. */
export function behaviourOf(chaos: Chaos): Behaviour {
  return { ...defaultBehaviour, ...presets[chaos] };
}
