/**
 * What a job of each kind may be given, and the command line that comes of it. The names are those of the flags, with `_`
 * for `-`, so that whoever knows the command knows the job.
 */
import type { JobKind } from '../model/job.ts';
import { isResourceName, resourceNames } from '../model/resources.ts';

/** One option: what is accepted, the words for it, and the arguments that it becomes. */
export interface JobOption {
  readonly accepts: Accepts;
  /** After "expected" in an error. */
  readonly expected: string;
  readonly argumentsOf: (value: unknown) => readonly string[];
}

type Accepts = (value: unknown) => boolean;

interface JobRule {
  /** The first words of the command line. */
  readonly command: readonly string[];
  readonly options: Readonly<Record<string, JobOption>>;
  /** Of each list, one must be given. */
  readonly needs: readonly (readonly string[])[];
  /** Of each list, one may be given. */
  readonly exclusive: readonly (readonly string[])[];
}

const flagOf = (name: string) => `--${name.replaceAll('_', '-')}`;
const listOf = (value: unknown) => [value].flat().map(String);

export function isTextThat(accepts: (text: string) => boolean): Accepts {
  return (value) => typeof value === 'string' && accepts(value);
}

export function isSwitch(value: unknown): boolean {
  return typeof value === 'boolean';
}

const isText = isTextThat((text) => text.trim() !== '');
const isResource = isTextThat(isResourceName);

/** One, or a list of at least one. */
function isOneOrMore(accepts: Accepts): Accepts {
  return (value) => (Array.isArray(value) ? value.length > 0 && value.every(accepts) : accepts(value));
}

const plain = (accepts: Accepts, expected: string) => (name: string) =>
  [name, { accepts, expected, argumentsOf: (value: unknown) => [flagOf(name), String(value)] }] as const;
const words = plain(isText, 'text');
const file = plain(isText, 'the path of a file');
const count = plain((value) => Number.isSafeInteger(value) && Number(value) >= 1, 'a whole number from 1');
const list = (name: string) =>
  [
    name,
    {
      accepts: isOneOrMore(isText),
      expected: 'a name, or names in a list such as [id, email]',
      argumentsOf: (value: unknown) => [flagOf(name), listOf(value).join(',')],
    },
  ] as const;
const onOff = (name: string) =>
  [
    name,
    {
      accepts: isSwitch,
      expected: 'true or false',
      argumentsOf: (value: unknown) => (value === true ? [flagOf(name)] : []),
    },
  ] as const;
/** An argument rather than a flag: it stands where it stands, without a name. */
const bare = (name: string, accepts: Accepts, expected: string, before = '') =>
  [name, { accepts, expected, argumentsOf: (value: unknown) => listOf(value).map((each) => before + each) }] as const;

const resources = bare(
  'resources',
  isOneOrMore(isResource),
  `names of resources, such as [${resourceNames.slice(0, 2).join(', ')}]`,
);

const files = [
  file('output'),
  words('format'),
  onOff('gzip'),
  onOff('zstd'),
  onOff('raw'),
  onOff('bom'),
  onOff('meta'),
  count('keep'),
] as const;

/** A value that a spreadsheet's owner would write: text, a number, true or false. */
function isParameter(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value);
}

const params: readonly [string, JobOption] = [
  'params',
  {
    accepts: (value) =>
      typeof value === 'object' &&
      value !== null &&
      !Array.isArray(value) &&
      Object.entries(value).every(([name, each]) => name !== '' && isParameter(each)),
    expected: 'parameters as "name: value"',
    argumentsOf: (value) =>
      Object.entries(value as Record<string, unknown>).flatMap(([name, each]) => [
        '--param',
        `${name}=${String(each)}`,
      ]),
  },
];

/** Every kind of job. What its flags mean is the command's own affair: `admin-mirror help export`. */
export const jobRules: Readonly<Record<JobKind, JobRule>> = {
  sync: {
    command: ['sync'],
    options: Object.fromEntries([resources, onOff('full'), onOff('quick'), count('max_requests')]),
    needs: [],
    exclusive: [['full', 'quick']],
  },
  export: {
    command: ['export'],
    options: Object.fromEntries([
      bare('what', isText, 'the name of a table, a view or a report'),
      words('sql'),
      onOff('all'),
      list('columns'),
      words('where'),
      words('order'),
      words('as_of'),
      ...files,
    ]),
    // What goes to standard output goes nowhere: nobody reads it there.
    needs: [['what', 'sql', 'all'], ['output']],
    exclusive: [
      ['what', 'sql', 'all'],
      ['gzip', 'zstd'],
    ],
  },
  report: {
    command: ['export'],
    options: Object.fromEntries([
      bare('report', isText, 'the name of a saved report', 'report:'),
      params,
      file('chart'),
      ...files,
    ]),
    needs: [['report'], ['output', 'chart']],
    exclusive: [
      ['output', 'chart'],
      ['gzip', 'zstd'],
    ],
  },
  verify: {
    command: ['verify'],
    options: Object.fromEntries([resources, onOff('deep')]),
    needs: [],
    exclusive: [],
  },
  certify: {
    command: ['certify'],
    options: Object.fromEntries([resources, file('output'), count('keep')]),
    needs: [],
    exclusive: [],
  },
  snapshot: {
    command: ['snapshot'],
    options: Object.fromEntries([bare('file', isText, 'the path of a file'), onOff('anonymise'), onOff('check')]),
    needs: [['file']],
    exclusive: [],
  },
  backup: {
    command: ['backup'],
    options: Object.fromEntries([bare('folder', isText, 'the path of a folder'), count('keep')]),
    needs: [],
    exclusive: [],
  },
  publish: {
    command: ['publish'],
    options: Object.fromEntries([onOff('full'), onOff('check')]),
    needs: [],
    exclusive: [['full', 'check']],
  },
};
