/** Reads and checks the jobs of the config file, and makes their commands. Each problem names its line. */
import { cronProblem, isTimeZone, type Job, type JobKind, jobKinds, ownTimeZone, timeZoneNames } from '../model/job.ts';
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { valueText } from '../model/text.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';

export interface Placed {
  readonly value: unknown;
  /** `config/admin-mirror.yaml:12` */
  readonly origin: string;
}

/** One job of the file, unchecked: its keys in their order. */
export interface WrittenJob {
  readonly origin: string;
  readonly entries: ReadonlyMap<string, Placed>;
}

type Accepts = (value: unknown) => boolean;

interface JobOption {
  readonly accepts: Accepts;
  /** After "expected" in an error. */
  readonly expected: string;
  /** The values for the flag; `true` for a switch, nothing if it is off. */
  readonly valueOf: (value: unknown) => true | string | readonly string[] | undefined;
  /** They are operands, without a flag. */
  readonly isOperand?: true;
}

interface JobRule {
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, JobOption>>;
  /** At least one of each list must be given. */
  readonly needs?: readonly (readonly string[])[];
  /** At most one of each list may be given. */
  readonly exclusive?: readonly (readonly string[])[];
}

function isTextThat(accepts: (text: string) => boolean): Accepts {
  return (value) => typeof value === 'string' && accepts(value);
}

function isSwitch(value: unknown): boolean {
  return typeof value === 'boolean';
}

const isText = isTextThat((text) => text.trim() !== '');

function isOneOrMore(accepts: Accepts): Accepts {
  return (value) => (Array.isArray(value) ? value.length > 0 && value.every(accepts) : accepts(value));
}

const listOf = (value: unknown) => [value].flat().map(String);

function option(accepts: Accepts, expected: string): JobOption {
  return { accepts, expected, valueOf: (value) => listOf(value).join(',') };
}

const text = option(isText, 'text');
const file = option(isText, 'the path of a file');
const count = option((value) => Number.isSafeInteger(value) && Number(value) >= 1, 'a whole number from 1');
const names = option(isOneOrMore(isText), 'a name, or names in a list such as [id, email]');
const onOff: JobOption = {
  accepts: isSwitch,
  expected: 'true or false',
  valueOf: (value) => (value === true ? true : undefined),
};

/** A positional argument. @param before comes before each value: `report:` */
function argument(accepts: Accepts, expected: string, before = ''): JobOption {
  return { accepts, expected, isOperand: true, valueOf: (value) => listOf(value).map((each) => before + each) };
}

const resources = argument(
  isOneOrMore(isTextThat(isResourceName)),
  `names of resources, such as [${resourceNames.slice(0, 2).join(', ')}]`,
);

const files = {
  output: file,
  format: text,
  gzip: onOff,
  raw: onOff,
  bom: onOff,
  meta: onOff,
  keep: count,
};

const params: JobOption = {
  accepts: (value) =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.entries(value).every(([name, each]) => name !== '' && ['string', 'number', 'boolean'].includes(typeof each)),
  expected: 'parameters as "name: value"',
  valueOf: (value) => Object.entries(value as Record<string, unknown>).map(([name, each]) => `${name}=${String(each)}`),
};

/** Every kind of job and its command. The options have the names of the command's flags, with `_` for `-`. */
export const jobRules: Readonly<Record<JobKind, JobRule>> = {
  sync: {
    command: ['sync'],
    options: { resources, full: onOff, quick: onOff, max_requests: count },
    exclusive: [['full', 'quick']],
  },
  export: {
    command: ['export'],
    options: {
      what: argument(isText, 'the name of a table, a view or a report'),
      sql: text,
      all: onOff,
      columns: names,
      where: text,
      order: text,
      as_of: text,
      ...files,
    },
    // Nobody reads the standard output of a job, so it needs a file.
    needs: [['what', 'sql', 'all'], ['output']],
    exclusive: [['what', 'sql', 'all']],
  },
  report: {
    command: ['export'],
    options: { report: argument(isText, 'the name of a saved report', 'report:'), params, chart: file, ...files },
    needs: [['report'], ['output', 'chart']],
    exclusive: [['output', 'chart']],
  },
  verify: { command: ['verify'], options: { resources, deep: onOff } },
  snapshot: {
    command: ['snapshot'],
    options: { file: argument(isText, 'the path of a file'), anonymise: onOff },
    needs: [['file']],
  },
  backup: {
    command: ['backup'],
    options: { folder: argument(isText, 'the path of a folder'), keep: count },
  },
  publish: {
    command: ['publish'],
    options: { full: onOff, check: onOff },
    exclusive: [['full', 'check']],
  },
};

/** Returns the name of the command's flag for a setting of a job. */
export function flagOf(setting: string): string {
  return setting === 'params' ? 'param' : setting.replaceAll('_', '-');
}

const isName = isTextThat((text) => /^[A-Za-z0-9][\w.-]{0,63}$/.test(text));

/** The options of every job, which are not the command's. */
const common: Readonly<Record<string, Omit<JobOption, 'valueOf'>>> = {
  name: { accepts: isName, expected: 'a name of letters, digits, "-", "_" and "."' },
  run: { accepts: isKind, expected: `one of ${jobKinds.join(', ')}` },
  cron: { accepts: isTextThat(() => true), expected: 'a cron expression such as "15 2 * * *"' },
  timezone: { accepts: isTextThat(isTimeZone), expected: 'a time zone such as Europe/Berlin or UTC' },
  after: { accepts: (value) => [value].flat().every(isName), expected: 'the name of another job, or names in a list' },
  require: { accepts: (value) => value === 'complete', expected: 'complete' },
};

/** Reads the jobs and leaves out those with a problem. @param zone the variable TZ, for jobs without a timezone */
export function readJobs(written: readonly WrittenJob[], zone?: string) {
  const problems: UsageError[] = [];
  const read = written.flatMap((each, index) => {
    const job = readJob(each, `job ${index + 1}`, zone, problems);
    return job === undefined ? [] : [{ job, origin: each.origin }];
  });
  // If a job could not be read, others may rightly name it.
  if (problems.length === 0) problems.push(...problemsBetween(read));
  return { jobs: read.map(({ job }) => job), problems };
}

function readJob(
  { origin, entries }: WrittenJob,
  place: string,
  zone: string | undefined,
  problems: UsageError[],
): Job | undefined {
  const before = problems.length;
  const given = entries.get('name')?.value;
  const title = typeof given === 'string' ? `job "${given}"` : place;
  const kind = entries.get('run')?.value;
  const known = isKind(kind) ? jobRules[kind] : undefined;
  const options = { ...common, ...known?.options };
  const values: Record<string, unknown> = {};
  for (const [key, { value, origin: at }] of entries) {
    const option = options[key];
    if (option === undefined) {
      // Without a known kind, nobody knows which settings it has.
      if (known === undefined && key !== 'run') continue;
      const advice = suggestion(key, Object.keys(options));
      const of = typeof kind === 'string' ? ` of ${kind}` : '';
      problems.push(new UsageError(`${at}: ${title}: there is no setting "${key}"${of}`, { advice }));
    } else if (option.accepts(value)) {
      values[key] = value;
    } else {
      problems.push(wrongValue(at, title, key, value, option.expected));
    }
  }
  for (const key of ['name', 'run', 'cron']) {
    if (entries.has(key)) continue;
    problems.push(
      new UsageError(`${origin}: ${title} has no ${key}`, { advice: `Add ${key}: ${common[key]?.expected}.` }),
    );
  }
  values['timezone'] ??= ownTimeZone(zone);
  if (values['timezone'] === undefined && !entries.has('timezone')) problems.push(noTimeZone(origin, title, zone));
  const cron = values['cron'];
  const wrong = typeof cron === 'string' ? cronProblem(cron) : undefined;
  if (wrong !== undefined) {
    const message = `${entries.get('cron')?.origin}: ${title}: cron is "${String(cron)}": ${wrong.problem}`;
    problems.push(new UsageError(message, { advice: wrong.advice }));
  }
  if (problems.length === before && known !== undefined) problems.push(...ruleProblems(origin, title, known, values));
  return problems.length === before && known !== undefined ? jobOf(values as unknown as JobValues, known) : undefined;
}

function isKind(value: unknown): value is JobKind {
  return jobKinds.some((kind) => kind === value);
}

function wrongValue(at: string, title: string, key: string, value: unknown, expected: string): UsageError {
  const known = key === 'timezone' ? timeZoneNames() : key === 'run' ? jobKinds : [];
  return new UsageError(`${at}: ${title}: ${key} is ${valueText(value)}: expected ${expected}`, {
    advice: `Correct it there.${nearHint(value, known)}`,
  });
}

function nearHint(value: unknown, known: readonly string[]): string {
  return typeof value === 'string' && nearestNames(value, known).length > 0 ? ` ${suggestion(value, known)}` : '';
}

function noTimeZone(origin: string, title: string, zone: string | undefined): UsageError {
  const why =
    zone === undefined ? 'that of this machine has no name' : `TZ is ${valueText(zone)}, which is no time zone`;
  return new UsageError(`${origin}: ${title} has no timezone, and ${why}`, {
    advice: `Give the job a timezone, such as Europe/Berlin or UTC, or correct TZ.${nearHint(zone, timeZoneNames())}`,
  });
}

function ruleProblems(
  origin: string,
  title: string,
  { needs = [], exclusive = [] }: JobRule,
  values: Readonly<Record<string, unknown>>,
): UsageError[] {
  const isGiven = (key: string) => values[key] !== undefined && values[key] !== false;
  const missing = needs.filter((keys) => !keys.some(isGiven));
  const twice = exclusive.map((keys) => keys.filter(isGiven)).filter((keys) => keys.length > 1);
  const alone = values['require'] !== undefined && values['after'] === undefined;
  const message = (problem: string): string => `${origin}: ${title} ${problem}`;
  const advice = 'Name the job that must be complete, as in "after: sync".';
  return [
    ...missing.map((keys) => new UsageError(message(`needs ${keys.join(' or ')}`))),
    ...twice.map((keys) => new UsageError(message(`has ${keys.join(' and ')}: only one of them can be`))),
    ...(alone ? [new UsageError(message('has require, but no after'), { advice })] : []),
  ];
}

interface JobValues {
  readonly name: string;
  readonly run: JobKind;
  readonly cron: string;
  readonly timezone: string;
  readonly after?: string | readonly string[];
  readonly require?: 'complete';
  readonly [option: string]: unknown;
}

function jobOf(values: JobValues, { command, options }: JobRule): Job {
  const given: Record<string, true | string | readonly string[]> = {};
  const operands: string[] = [];
  // In the order of the rules, not of the file.
  for (const [key, { valueOf, isOperand }] of Object.entries(options)) {
    const value = values[key] === undefined ? undefined : valueOf(values[key]);
    if (value === undefined) continue;
    if (isOperand === true) operands.push(...listOf(value));
    else given[flagOf(key)] = value;
  }
  return Object.freeze({
    name: values.name,
    run: values.run,
    call: Object.freeze({ path: command, operands, options: given }),
    cron: values.cron,
    timezone: values.timezone,
    after: Object.freeze([...new Set([values.after ?? []].flat())]),
    requireComplete: values.require === 'complete',
  });
}

/** Returns problems between jobs: names that occur twice, unknown names in `after`, jobs that wait for each other. */
function problemsBetween(read: readonly { readonly job: Job; readonly origin: string }[]): UsageError[] {
  const problems: UsageError[] = [];
  const known = read.map(({ job }) => job.name);
  for (const [index, { job, origin }] of read.entries()) {
    if (known.indexOf(job.name) < index) {
      problems.push(new UsageError(`${origin}: there is already a job named "${job.name}"`));
    }
    for (const other of job.after) {
      if (known.includes(other) && other !== job.name) continue;
      const advice = suggestion(
        other,
        known.filter((each) => each !== job.name),
      );
      const why = other === job.name ? 'itself' : `"${other}", and there is no such job`;
      problems.push(new UsageError(`${origin}: job "${job.name}" comes after ${why}`, { advice }));
    }
  }
  if (problems.length > 0) return problems;
  const circle = circleIn(new Map(read.map(({ job }) => [job.name, job.after])));
  if (circle === undefined) return [];
  const origin = read.find(({ job }) => job.name === circle[0])?.origin ?? '';
  return [
    new UsageError(`${origin}: the jobs ${circle.join(', ')} wait for each other`, {
      advice: 'Take one "after" out of the circle.',
    }),
  ];
}

function circleIn(after: ReadonlyMap<string, readonly string[]>): string[] | undefined {
  const done = new Set<string>();
  function walk(names: Iterable<string>, path: readonly string[]): string[] | undefined {
    for (const name of names) {
      if (path.includes(name)) return path.slice(path.indexOf(name));
      if (done.has(name)) continue;
      const found = walk(after.get(name) ?? [], [...path, name]);
      if (found !== undefined) return found;
      done.add(name);
    }
    return undefined;
  }
  return walk(after.keys(), []);
}
