/** Reads and checks the jobs of the config file, and makes their commands. Each problem names its line. */
import * as z from 'zod/mini';
import { cronProblem, isTimeZone, type Job, type JobKind, jobKinds, ownTimeZone, timeZoneNames } from '../model/job.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import { valueText } from '../model/text.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';
import { isEmpty, nearHint, type Placed, readBlock } from './block.ts';
import { count, type Kind, names, onOff, path as file, text } from './kinds.ts';

/** What an option becomes: `true` for a switch, nothing if it is off, one text, or one for each time that the flag is given. */
type OptionValue = boolean | number | string | readonly string[];

interface JobRule {
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, Kind<OptionValue>>>;
  /** The option that has no flag: its values are the operands of the command. */
  readonly operand?: string;
  /** At least one of each list must be given. */
  readonly needs?: readonly (readonly string[])[];
  /** At most one of each list may be given. */
  readonly exclusive?: readonly (readonly string[])[];
}

/** A text, said more precisely. */
function called(expected: string): Kind<string> {
  return { ...text, expected };
}

const someNames = names('a name, or names in a list such as [id, email]', () => true);
const columns: Kind<string> = {
  ...someNames,
  type: z.pipe(
    someNames.type,
    z.transform((all) => all.join(',')),
  ),
};
const resources = names(`names of resources, such as [${resourceNames.slice(0, 2).join(', ')}]`, isResourceName);
const params: Kind<readonly string[]> = {
  expected: 'parameters as "name: value"',
  type: z.pipe(
    z.record(z.string().check(z.minLength(1)), z.union([z.string(), z.number(), z.boolean()])),
    z.transform((given) => Object.entries(given).map(([name, value]) => `${name}=${value}`)),
  ),
};
/** Every kind of job and its command. The options have the names of the command's flags, with `_` for `-`. */
export const jobRules: Readonly<Record<JobKind, JobRule>> = {
  sync: {
    command: ['sync'],
    options: { resources, full: onOff, quick: onOff, max_requests: count() },
    operand: 'resources',
    exclusive: [['full', 'quick']],
  },
  export: {
    command: ['export'],
    options: {
      what: called('the name of a table or a view, or report:NAME'),
      sql: text,
      all: onOff,
      columns,
      where: text,
      order: text,
      as_of: text,
      params,
      chart: file,
      output: file,
      format: text,
      gzip: onOff,
      raw: onOff,
      bom: onOff,
      meta: onOff,
      keep: count(),
    },
    operand: 'what',
    // Nobody reads the standard output of a job, so it needs a file.
    needs: [
      ['what', 'sql', 'all'],
      ['output', 'chart'],
    ],
    exclusive: [
      ['what', 'sql', 'all'],
      ['output', 'chart'],
    ],
  },
  verify: { command: ['verify'], options: { resources, deep: onOff }, operand: 'resources' },
  snapshot: { command: ['snapshot'], options: { file }, operand: 'file', needs: [['file']] },
  backup: {
    command: ['backup'],
    options: { folder: called('the path of a folder'), keep: count() },
    operand: 'folder',
  },
  publish: { command: ['publish'], options: { full: onOff, check: onOff }, exclusive: [['full', 'check']] },
};

/** Returns the name of the command's flag for a setting of a job. */
export function flagOf(setting: string): string {
  return setting === 'params' ? 'param' : setting.replaceAll('_', '-');
}

const jobName = z.string().check(z.regex(/^[A-Za-z0-9][\w.-]{0,63}$/));
const kind: Kind<JobKind> = {
  expected: `one of ${jobKinds.join(', ')}`,
  type: z.enum(jobKinds),
  names: jobKinds,
};

/** The options of every job, which are not the command's. */
export const commonOptions = {
  name: { expected: 'a name of letters, digits, "-", "_" and "."', type: jobName } as Kind<string>,
  run: kind,
  cron: called('a cron expression such as "15 2 * * *"'),
  timezone: {
    expected: 'a time zone such as Europe/Berlin or UTC',
    type: z.string().check(z.refine(isTimeZone)),
    // Listed late: there are hundreds.
    get names() {
      return timeZoneNames();
    },
  },
  after: names('the name of another job, or names in a list', (each) => jobName.safeParse(each).success),
  require: { expected: 'complete', type: z.literal('complete') } as Kind<'complete'>,
} satisfies Readonly<Record<string, Kind<unknown>>>;

type JobValues = { readonly [K in keyof typeof commonOptions]?: z.output<(typeof commonOptions)[K]['type']> } & {
  readonly [option: string]: unknown;
};

/** Reads the jobs and leaves out those with a problem. @param zone the variable TZ, for jobs without a timezone */
export function readJobs(written: readonly Placed[], zone?: string) {
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
  { origin, entries = new Map() }: Placed,
  place: string,
  zone: string | undefined,
  all: UsageError[],
): Job | undefined {
  const given = entries.get('name')?.value;
  const title = typeof given === 'string' ? `job "${given}"` : place;
  const { data: run } = kind.type.safeParse(entries.get('run')?.value);
  const rule = run === undefined ? undefined : jobRules[run];
  // Without a known kind, nobody knows which settings it has.
  const known = rule === undefined ? new Map([...entries].filter(([key]) => key in commonOptions)) : entries;
  const { values: read, problems } = readBlock(
    known,
    { ...commonOptions, ...rule?.options },
    title,
    run === undefined ? '' : ` of ${run}`,
  );
  const isGiven = (key: string): boolean => !isEmpty(entries.get(key) ?? { value: null, origin });
  const wrong = (problem: string, advice?: string) => void problems.push(new UsageError(problem, { advice }));
  for (const key of ['name', 'run', 'cron'] as const) {
    if (!isGiven(key)) wrong(`${origin}: ${title} has no ${key}`, `Add ${key}: ${commonOptions[key].expected}.`);
  }
  const values: JobValues = isGiven('timezone') ? read : { ...read, timezone: ownTimeZone(zone) };
  if (values.timezone === undefined && !isGiven('timezone')) problems.push(noTimeZone(origin, title, zone));
  const { cron } = values;
  const notTime = cron === undefined ? undefined : cronProblem(cron);
  if (notTime !== undefined) {
    wrong(`${entries.get('cron')?.origin}: ${title}: cron is "${cron}": ${notTime.problem}`, notTime.advice);
  }
  if (problems.length === 0 && rule !== undefined) problems.push(...ruleProblems(`${origin}: ${title}`, rule, values));
  all.push(...problems);
  return problems.length > 0 || rule === undefined ? undefined : jobOf(values, rule);
}

function noTimeZone(origin: string, title: string, zone: string | undefined): UsageError {
  const why =
    zone === undefined ? 'that of this machine has no name' : `TZ is ${valueText(zone)}, which is no time zone`;
  return new UsageError(`${origin}: ${title} has no timezone, and ${why}`, {
    advice: `Give the job a timezone, such as Europe/Berlin or UTC, or correct TZ.${nearHint(zone, timeZoneNames())}`,
  });
}

function ruleProblems(title: string, { needs = [], exclusive = [] }: JobRule, values: JobValues): UsageError[] {
  const isGiven = (key: string) => values[key] !== undefined && values[key] !== false;
  const missing = needs.filter((keys) => !keys.some(isGiven));
  const twice = exclusive.map((keys) => keys.filter(isGiven)).filter((keys) => keys.length > 1);
  const alone = values.require !== undefined && values.after === undefined;
  const advice = 'Name the job that must be complete, as in "after: sync".';
  return [
    ...missing.map((keys) => new UsageError(`${title} needs ${keys.join(' or ')}`)),
    ...twice.map((keys) => new UsageError(`${title} has ${keys.join(' and ')}: only one of them can be`)),
    ...(alone ? [new UsageError(`${title} has require, but no after`, { advice })] : []),
  ];
}

function jobOf(values: JobValues, { command, options, operand }: JobRule): Job {
  const { name = '', run = 'sync', cron = '', timezone = 'UTC' } = values;
  const given: Record<string, true | string | readonly string[]> = {};
  const operands: string[] = [];
  // In the order of the rules, not of the file.
  for (const key of Object.keys(options)) {
    const value = values[key] as OptionValue | undefined;
    if (value === undefined || value === false) continue;
    if (key === operand) operands.push(...[value].flat().map(String));
    else given[flagOf(key)] = typeof value === 'number' ? String(value) : value;
  }
  return Object.freeze({
    name,
    run,
    call: Object.freeze({ path: command, operands, options: given }),
    cron,
    timezone,
    after: Object.freeze([...new Set(values.after)]),
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
    const others = known.filter((each) => each !== job.name);
    for (const other of job.after.filter((each) => !others.includes(each))) {
      const why = other === job.name ? 'itself' : `"${other}", and there is no such job`;
      const advice = suggestion(other, others);
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
