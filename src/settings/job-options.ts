/**
 * What a job of each kind may be given, and the command line that comes of it. The names are those of the flags, with `_`
 * for `-`, so that whoever knows the command knows the job.
 */
import type { JobKind } from '../model/job.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';

type Accepts = (value: unknown) => boolean;

export interface JobOption {
  readonly accepts: Accepts;
  /** After "expected" in an error. */
  readonly expected: string;
  readonly argumentsOf: (value: unknown, flag: string) => readonly string[];
}

interface JobRule {
  /** The first words of the command line. */
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, JobOption>>;
  /** Of each list, one must be given. */
  readonly needs: readonly (readonly string[])[];
  /** Of each list, one may be given. */
  readonly exclusive: readonly (readonly string[])[];
}

export function isTextThat(accepts: (text: string) => boolean): Accepts {
  return (value) => typeof value === 'string' && accepts(value);
}

export function isSwitch(value: unknown): boolean {
  return typeof value === 'boolean';
}

const isText = isTextThat((text) => text.trim() !== '');

function isOneOrMore(accepts: Accepts): Accepts {
  return (value) => (Array.isArray(value) ? value.length > 0 && value.every(accepts) : accepts(value));
}

const listOf = (value: unknown) => [value].flat().map(String);

function option(accepts: Accepts, expected: string): JobOption {
  return { accepts, expected, argumentsOf: (value, flag) => [flag, listOf(value).join(',')] };
}

const text = option(isText, 'text');
const file = option(isText, 'the path of a file');
const count = option((value) => Number.isSafeInteger(value) && Number(value) >= 1, 'a whole number from 1');
const names = option(isOneOrMore(isText), 'a name, or names in a list such as [id, email]');
const onOff: JobOption = {
  accepts: isSwitch,
  expected: 'true or false',
  argumentsOf: (value, flag) => (value === true ? [flag] : []),
};

/** An argument rather than a flag. */
function argument(accepts: Accepts, expected: string, before = ''): JobOption {
  return { accepts, expected, argumentsOf: (value) => listOf(value).map((each) => before + each) };
}

const resources = argument(
  isOneOrMore(isTextThat(isResourceName)),
  `names of resources, such as [${resourceNames.slice(0, 2).join(', ')}]`,
);

const files = {
  output: file,
  format: text,
  gzip: onOff,
  zstd: onOff,
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
  argumentsOf: (value) =>
    Object.entries(value as Record<string, unknown>).flatMap(([name, each]) => ['--param', `${name}=${String(each)}`]),
};

/** Every kind of job. What its flags mean is the command's own affair: `admin-mirror help export`. */
export const jobRules: Readonly<Record<JobKind, JobRule>> = {
  sync: {
    command: ['sync'],
    options: { resources, full: onOff, quick: onOff, max_requests: count },
    needs: [],
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
    // What goes to standard output goes nowhere: nobody reads it there.
    needs: [['what', 'sql', 'all'], ['output']],
    exclusive: [
      ['what', 'sql', 'all'],
      ['gzip', 'zstd'],
    ],
  },
  report: {
    command: ['export'],
    options: { report: argument(isText, 'the name of a saved report', 'report:'), params, chart: file, ...files },
    needs: [['report'], ['output', 'chart']],
    exclusive: [
      ['output', 'chart'],
      ['gzip', 'zstd'],
    ],
  },
  verify: { command: ['verify'], options: { resources, deep: onOff }, needs: [], exclusive: [] },
  certify: { command: ['certify'], options: { resources, output: file, keep: count }, needs: [], exclusive: [] },
  snapshot: {
    command: ['snapshot'],
    options: { file: argument(isText, 'the path of a file'), anonymise: onOff, check: onOff },
    needs: [['file']],
    exclusive: [],
  },
  backup: {
    command: ['backup'],
    options: { folder: argument(isText, 'the path of a folder'), keep: count },
    needs: [],
    exclusive: [],
  },
  publish: {
    command: ['publish'],
    options: { full: onOff, check: onOff },
    needs: [],
    exclusive: [['full', 'check']],
  },
};
