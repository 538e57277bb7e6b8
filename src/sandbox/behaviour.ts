/**
 * The switches that a person plays with, and the presets that set many at once. The command line's help, the checks of the control
 * routes and docs/sandbox.md follow from this table.
 */
import { suggestion, UsageError } from '../model/errors.ts';

/** How to read a switch's value: `probability` is 0 to 1, `count` a whole number, `amount` any number from 0. */
type SwitchKind = 'probability' | 'count' | 'amount' | 'flag' | 'text';

export interface Switch<T extends string | number | boolean = string | number | boolean> {
  readonly kind: SwitchKind;
  readonly default: T;
  readonly meaning: string;
}

function numeric(kind: 'probability' | 'count' | 'amount', meaning: string, value = 0): Switch<number> {
  return { kind, default: value, meaning };
}

/** All switches by name, in the order in which they are listed. */
export const switches = {
  page_max: numeric('count', 'largest page size; a larger one is cut to it; 0: no limit'),
  latency: numeric('amount', 'delay of each response in milliseconds'),
  latency_jitter: numeric('amount', 'largest random addition to the latency in milliseconds'),
  rate_limit: numeric('count', 'requests allowed in a window; further ones get 429; 0: no limit'),
  rate_window: numeric('amount', "length of the window in seconds of the sandbox's clock", 60),
  errors: numeric(
    'probability',
    'a request fails before anything is done: 500, 502, 503, a web page, a reset connection',
  ),
  lost_answers: numeric('probability', 'a write is made, and its response is lost'),
  churn_inserts: numeric('amount', 'records added before each list request, on average'),
  churn_updates: numeric('amount', 'records changed before each list request, on average'),
  churn_deletes: numeric('amount', 'records deleted before each list request, on average'),
  forbidden: {
    kind: 'text',
    default: '',
    meaning: 'resources (packages) or operations (users.delete), separated by commas, that get 403',
  } as Switch<string>,
  maintenance: { kind: 'flag', default: false, meaning: 'everything gets 503 and Retry-After' } as Switch<boolean>,
} as const;

type SwitchName = keyof typeof switches;

export type Behaviour = {
  readonly [N in SwitchName]: (typeof switches)[N] extends Switch<infer T> ? T : never;
};

export const switchNames = Object.keys(switches) as SwitchName[];

/** All switches at their defaults: no faults, stable data, everything as the API's reference says. */
export const defaultBehaviour = Object.fromEntries(
  switchNames.map((name) => [name, switches[name].default]),
) as unknown as Behaviour;

const flags = new Map<unknown, boolean>([
  ...[true, 'true', '1', 'on'].map((value) => [value, true] as const),
  ...[false, 'false', '0', 'off'].map((value) => [value, false] as const),
]);

function readValue(name: string, { kind }: Switch, value: unknown): string | number | boolean {
  const wrong = (why: string): UsageError =>
    new UsageError(`the sandbox's switch ${name} was set to ${JSON.stringify(value)}, which is not ${why}`);
  if (kind === 'text') {
    if (typeof value === 'string') return value;
    throw wrong('text');
  }
  if (kind === 'flag') {
    const flag = flags.get(value);
    if (flag === undefined) throw wrong('true or false');
    return flag;
  }
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value;
  if (typeof number !== 'number' || !Number.isFinite(number)) throw wrong('a number');
  if (kind === 'probability' && (number < 0 || number > 1)) throw wrong('between 0 and 1');
  if (kind === 'count' && !Number.isInteger(number)) throw wrong('a whole number');
  if (number < 0) throw wrong('0 or more');
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

export const chaosNames = ['calm', 'rough', 'hostile'] as const;
export type Chaos = (typeof chaosNames)[number];

/** What each preset does, for the command line's help. */
export const chaosMeanings: Readonly<Record<Chaos, string>> = {
  calm: "no faults, unchanging data, everything as the API's reference says",
  rough: 'a few of every hundred requests fail or lose their responses; the data does not change',
  hostile: 'more faults, a rate limit, small pages, and data that changes while it is read',
};

const rough = { page_max: 500, latency_jitter: 3, errors: 0.06, lost_answers: 0.03 };

const presets: Readonly<Record<Chaos, Partial<Behaviour>>> = {
  calm: {},
  rough,
  hostile: {
    page_max: 200,
    latency_jitter: 10,
    rate_limit: 600,
    rate_window: 10,
    errors: 0.12,
    lost_answers: 0.08,
    churn_inserts: 0.1,
    churn_updates: 0.2,
    churn_deletes: 0.1,
  },
};

/** Returns all switches as the preset sets them. */
export function behaviourOf(chaos: Chaos): Behaviour {
  return { ...defaultBehaviour, ...presets[chaos] };
}
