/** The flags of the operations: defined from the descriptors, and read into the parameters or the body of a request. */
import { type Command, Option } from 'commander';
import type { ListWords } from '../api/lists.ts';
import { readInput, toCount } from './flag-values.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import { wordsIn } from '../model/text.ts';
import { parseMoney } from '../model/money.ts';
import type { Operation, Parameter } from '../model/operations.ts';
import { datePresets, defaultPageSize, type Resource } from '../model/resources.ts';

/** As commander returns them. */
export interface ListFlags {
  readonly page?: number;
  readonly paginate?: number;
  readonly include?: readonly string[];
  readonly filter?: readonly string[];
  readonly sort?: readonly string[];
  readonly date?: string;
  readonly all?: boolean;
}

function collected(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), text];
}

/** Parses a flag that may be given several times, each time with several names. */
function collectedNames(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), ...wordsIn(text)];
}

export function addListFlags(command: Command, resource: Resource): void {
  const { includes, filterKeys, sortKeys, jsonColumns } = resource;
  const nested = jsonColumns.map((column) => `, or a key inside ${column}: '${column}->key=value'`).join('');
  command
    .option('--page <number>', 'which page, counted from 1', toCount)
    .option('--paginate <number>', `records per page (default: ${defaultPageSize}; with --all, 1,000)`, toCount);
  if (includes !== null) {
    const help = `related records to include, separated by commas: ${includes.join(', ')}`;
    command.addOption(new Option('--include <names>', help).argParser(collectedNames));
  }
  command
    .addOption(
      new Option(
        '--filter <key=value>',
        `only records with that value, may be repeated; keys: ${filterKeys.join(', ')}${nested}`,
      ).argParser(collected),
    )
    .addOption(
      new Option(
        '--sort <key:direction>',
        `asc (the default), desc or random, may be repeated, in order; keys: ${sortKeys.join(', ')}`,
      ).argParser(collectedNames),
    )
    .option(
      '--date <when>',
      `created then: ${datePresets.join(', ')}, or two days: 2026-01-01,2026-01-31. Many servers stop at the start of the ` +
        'second day: to include it, name the day after',
    )
    .addOption(new Option('--all', 'every page, each record once').conflicts('page'));
}

function filterOf(text: string): { key: string; value: string } {
  const at = text.indexOf('=');
  if (at > 0) return { key: text.slice(0, at).trim(), value: text.slice(at + 1) };
  throw new UsageError(`--filter "${text}" has no value`, { advice: 'Write it as --filter key=value.' });
}

function sortOf(text: string): { key: string; direction: string } {
  const [key = '', direction = 'asc', ...more] = text.split(':');
  if (more.length === 0 && !key.includes('=')) return { key, direction };
  throw new UsageError(`--sort is "${text}"`, { advice: 'Write it as --sort key:desc.' });
}

/** Returns the flags as parameters of a list request, not yet checked against the resource. Throws a UsageError. */
export function listWordsOf(flags: ListFlags): ListWords {
  const { page, paginate } = flags;
  const sorts = flags.sort?.map(sortOf);
  if (flags.all === true && sorts?.some(({ direction }) => direction === 'random') === true) {
    throw new UsageError('--all and a random order do not go together: pages would overlap');
  }
  return {
    ...(paginate === undefined ? {} : { paginate }),
    ...(page === undefined ? {} : { page }),
    ...(flags.include === undefined ? {} : { include: flags.include }),
    ...(flags.filter === undefined ? {} : { filters: flags.filter.map(filterOf) }),
    ...(sorts === undefined ? {} : { sorts }),
    ...(flags.date === undefined ? {} : { date: flags.date }),
  };
}

/** As commander returns them, by attribute name. */
export type ParameterFlags = Readonly<Record<string, string | boolean | undefined>>;

/** `address[zip_code]` → `address-zip-code`. */
function flagOf(parameter: Parameter): string {
  return parameter.name.replaceAll(/[[_]/g, '-').replaceAll(']', '');
}

const placeholders = { string: 'text', number: 'amount', code: 'code', icon: 'icon', url: 'url' } as const;

/** Parameters that may be long or secret: given as `-`, they are read from standard input. */
const readable = new Set(['content', 'message', 'password']);

function meaningOf({ values, note, name, required }: Parameter): string {
  const choice = values === undefined ? '' : `one of ${values.join(', ')}`;
  const stdin = readable.has(name) ? '- reads it from standard input' : '';
  const words = [choice, note, stdin].filter((each) => each !== '').join('; ');
  return `${words === '' ? name : words}${required ? ' (required)' : ''}`;
}

export function addParameterFlags(command: Command, operation: Operation): void {
  for (const parameter of operation.parameters) {
    const flag = flagOf(parameter);
    if (parameter.type === 'boolean') {
      command.addOption(new Option(`--${flag}`, meaningOf(parameter)));
      // false is not the same as a missing value.
      command.addOption(new Option(`--no-${flag}`, `send ${parameter.name} as false`));
    } else {
      const option = new Option(`--${flag} <${placeholders[parameter.type]}>`, meaningOf(parameter));
      command.addOption(option.makeOptionMandatory(parameter.required));
    }
  }
}

function checkedText(parameter: Parameter, text: string): string {
  const { values, type } = parameter;
  const flag = `--${flagOf(parameter)}`;
  if (values !== undefined && !values.includes(text)) {
    throw new UsageError(`${flag} cannot be "${text}"`, { advice: suggestion(text, values) });
  }
  if (type === 'url' && !URL.canParse(text)) {
    throw new UsageError(`${flag} "${text}" is not an address`, { advice: 'Write it as in https://example.com/page.' });
  }
  if (type !== 'number') return text;
  const parsed = parseMoney(text);
  if ('problem' in parsed) throw new UsageError(`${flag}: ${parsed.problem}`);
  return parsed.money;
}

/** Returns the request body. `address[city]` goes into a nested object; `-` is read from standard input. Throws a UsageError. */
export async function bodyOf(
  operation: Operation,
  flags: ParameterFlags,
  stdin: NodeJS.ReadableStream,
): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = {};
  let read = false;
  for (const parameter of operation.parameters) {
    const given = flags[new Option(`--${flagOf(parameter)}`).attributeName()];
    if (given === undefined) continue;
    let value: string | boolean = given;
    if (given === '-' && readable.has(parameter.name)) {
      if (read) throw new UsageError('only one text can be read from standard input');
      read = true;
      value = (await readInput(stdin)).replace(/\r?\n$/, '');
    } else if (typeof given === 'string') {
      value = checkedText(parameter, given);
    }
    setValue(body, parameter.name, value);
  }
  return body;
}

function setValue(body: Record<string, unknown>, name: string, value: string | boolean): void {
  const [outer = '', inner] = name.replace(']', '').split('[');
  if (inner === undefined) {
    body[outer] = value;
  } else {
    body[outer] = { ...(body[outer] as object | undefined), [inner]: value };
  }
}
