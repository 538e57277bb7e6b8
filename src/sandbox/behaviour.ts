/**
 * The table of switches: everything that the API's reference leaves open, and every way to fail. The command line's help, the
 * checks of the control routes and docs/sandbox.md follow from it. Presets set many switches at once.
 */
import { suggestion, UsageError } from '../model/errors.ts';
import { type ReadFault, readFaults, type WriteFault, writeFaults } from './faults.ts';

/** How to read a switch's value: `probability` is 0 to 1, `count` a whole number, `amount` any number from 0. */
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
  page_max: count('largest page size; 0: no limit'),
  page_over: choice(
    ['clamp', 'refuse', 'ignore'],
    'a page size over page_max is cut to it, refused with 422, or every page size is ignored',
  ),
  depth: count('pages of a list show nothing after this many records; 0: no limit'),
  depth_over: choice(['empty', 'refuse', 'error'], 'a page beyond the depth is empty, refused with 422, or gets 500'),
  sorts: choice(
    ['kept', 'ignored', 'random'],
    'lists keep the requested order, come by id, or in another order on every request',
  ),
  sort_ties: choice(['stable', 'random'], 'equal sort values come by id, or in another order on every request'),
  unknown_keys: choice(['refuse', 'ignore'], 'unknown filter, sort and include keys get 400 or are ignored'),
  includes_refused: text('include names, separated by commas, that get 400'),
  includes_ignored: text('include names, separated by commas, that are left out of the response'),
  filter_errors: text('filter keys, separated by commas, that get 500'),
  subscribed_filter: choice(['equal', 'inverted'], 'filter[is_subscribed]=0 finds 0, or finds 1'),
} as const;

/** Limits of the host, and what stands between it and the client. */
const host = {
  page_breaks_over: count('the host cannot make pages of more records than this; 0: no limit'),
  page_breaks_bytes: count('the host cannot make bodies of more bytes than this; 0: no limit'),
  poisoned: text('records that make every response with them fail, separated by commas: users:17,emails:4'),
  page_breaks_how: choice(
    ['error_500', 'error_502', 'html', 'hang', 'truncated', 'reset_middle', 'empty_body', 'says_so'],
    'how a response that the host cannot make fails: like the read fault of that name, or says_so: 200 with a message',
  ),
  cache_seconds: amount('how long a cache gives the same response to the same GET, with Age; 0: no cache'),
  cache_obeys: flag('the cache lets requests with Cache-Control: no-cache pass', true),
  compression: choice(
    ['none', 'gzip', 'br', 'deflate', 'deflate_raw', 'zstd'],
    'bodies come compressed, although the client did not ask for it',
  ),
  byte_order_mark: flag('bodies begin with a byte order mark'),
  data_as_object: flag('data of a list is an object whose keys are numbers'),
} as const;

const totals = {
  totals_more: count('every total is too large by this much'),
  totals_cap: count('no total is larger than this; 0: no limit'),
  totals_cached: amount("how long a total is cached, in seconds of the sandbox's clock"),
  deletes: choice(['gone', 'counted'], 'a deleted record is gone, or totals still count it although no page shows it'),
  pages_hide: text('records that totals and offsets count and pages leave out, separated by commas: users:17,emails:4'),
  empty_lists: text('resources, separated by commas, whose lists are empty and have a total of 0'),
  lists_of: text('lists that show the records of another list, separated by commas: users:emails'),
  same_ids: text('records that lists show under the id of another, separated by commas: users:17:18 shows 17 as 18'),
  missing_users: flag('a request for a single user always gets 404'),
} as const;

const dates = {
  date_format: choice(['both', 'iso', 'dmy'], 'the format of days in a range: YYYY-MM-DD, DD-MM-YYYY or both'),
  date_unreadable: choice(
    ['refuse', 'error', 'ignore', 'empty'],
    'a range with an unreadable day gets 422, gets 500, is ignored, or finds no record',
  ),
  date_ranges: choice(['on', 'ignored', 'error'], 'ranges work, are ignored, or get 500'),
  date_end: choice(
    ['midnight', 'exclusive', 'day'],
    'a range includes midnight at the start of its last day, ends just before it, or includes the whole last day',
  ),
  timezone_minutes: numeric('minutes', "offset of the server's days from UTC; east is positive", 0),
} as const;

const shapes = {
  numbers_as_strings: probability('a record has its numbers as text'),
  flags_as_booleans: probability('a record has its flags as true and false'),
  flags_as_strings: probability('a record has its flags as "0" and "1"'),
  empty_objects_as_arrays: probability('a record has its empty objects as []'),
  unknown_fields: probability("a record has fields that are not in the API's reference (always the same records)"),
  missing_fields: probability('a record lacks one of its fields (always the same records)'),
  answer_shape: choice(['data', 'bare', 'named'], 'one record comes as {"data": …}, bare, or as {"user": …}'),
  large_ids: flag('ids are served with 2^53 added'),
} as const;

const rules = {
  refusal_status: count('status of {"success": false} responses', 422),
  transactions: choice(['shown', 'hidden'], 'balance transactions are shown if they are requested, or never'),
  transactions_delay: amount("how long before a balance transaction is shown, in seconds of the sandbox's clock"),
  description_max: count('how many characters of the description of a balance transaction are kept; 0: all'),
  set_below_zero: choice(
    ['allowed', 'refused'],
    'setting a balance to an amount below 0 is allowed, or refused with 422',
  ),
  description_form: choice(
    ['plain', 'upper', 'escaped'],
    'the description of a balance transaction is kept as it came, in capitals, or with its HTML escaped',
  ),
  negative_balance: choice(
    ['allowed', 'refused', 'clamped'],
    'a change that takes a balance below 0 is allowed, refused, or stops at 0',
  ),
  balance_update: choice(
    ['made', 'lost'],
    'a change reaches the balance, or is recorded as a transaction but overwritten by another writer',
  ),
  delete_emails_with_user: flag("deleting a user deletes the user's emails"),
  forbidden: text('resources (packages) or operations (users.delete), separated by commas, that get 403'),
  maintenance: flag('everything gets 503 and Retry-After'),
} as const;

const limits = {
  rate_limit: count('requests allowed in a window; further ones get 429; 0: no limit'),
  rate_window: amount("length of the window in seconds of the sandbox's clock", 60),
  rate_headers: flag('responses carry X-RateLimit-Limit and X-RateLimit-Remaining', true),
  retry_after: choice(['seconds', 'date', 'none'], 'how Retry-After is written on 429 and 503'),
  retry_after_seconds: count('the wait in Retry-After on 503 and on the 429 of too_many', 1),
  latency: amount('delay of each response in milliseconds'),
  latency_jitter: amount('largest random addition to the latency in milliseconds'),
} as const;

const churn = {
  churn_inserts: amount('records added before each list request, on average'),
  churn_updates: amount('records changed before each list request, on average'),
  churn_deletes: amount('records deleted before each list request, on average'),
  churn_backdated: probability('an added record has its created_at in the past'),
  quiet_days: text('days without new records in the seed data, as in 2025-12-20..2026-01-10; only at the start'),
  ties: probability('a new record has the created_at of the one before it', 0.02),
} as const;

const faults = {
  fault_streak: count('how many times in a row the same request may fail; 0: no limit'),
  html_status: count('status of HTML pages', 502),
  html_content_type: text('content type of HTML pages', 'text/html; charset=UTF-8'),
  oversized_bytes: count('size of an oversized body', 70 * 1024 * 1024),
  late_commit_ms: count('how many milliseconds after the reset commit_late writes', 50),
} as const;

type FaultSwitches = { readonly [F in ReadFault as `read_${F}`]: Switch<number> } & {
  readonly [F in WriteFault as `write_${F}`]: Switch<number>;
};

const faultSwitches = Object.fromEntries([
  ...Object.entries(readFaults).map(([name, meaning]) => [`read_${name}`, probability(`GET: ${meaning}`)]),
  ...Object.entries(writeFaults).map(([name, meaning]) => [`write_${name}`, probability(`write: ${meaning}`)]),
]) as FaultSwitches;

/** All switches by name, in the order in which they are listed. */
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

/** All switches at their defaults: no faults, stable data, everything as the API's reference says. */
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

/** Reads values of switches, also as text, as flags of the command line give them. Throws a UsageError. */
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

/** What each preset does, for the command line's help. */
export const chaosMeanings: Readonly<Record<Chaos, string>> = {
  calm: "no faults, unchanging data, everything as the API's reference says",
  rough: 'a few of every hundred responses fail and values change their form; the data does not change',
  storm: 'more faults, a rate limit, hangs, shifted days, and data that changes while it is read',
};

/** Reads switches as the flags of the command line give them. */
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

/** Returns all switches as the preset sets them. */
export function behaviourOf(chaos: Chaos): Behaviour {
  return { ...defaultBehaviour, ...presets[chaos] };
}
