/** The flags of the list operations: defined from a resource's descriptor, read into what a list is asked for. */
import { type Command, Option } from 'commander';
import type { ListWords } from '../api/list-query.ts';
import { UsageError } from '../model/errors.ts';
import { datePresets, defaultPageSize, type Resource } from '../model/resources.ts';

/** As commander gives them. */
export interface ListFlags {
  readonly page?: string;
  readonly paginate?: string;
  readonly include?: readonly string[];
  readonly filter?: readonly string[];
  readonly sort?: readonly string[];
  readonly date?: string;
  readonly all?: boolean;
}

function collected(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), text];
}

/** Names of a flag that may be given several times, each time with several names. */
function collectedNames(text: string, before: readonly string[] | undefined): string[] {
  const names = text.split(',').map((each) => each.trim());
  return [...(before ?? []), ...names.filter((each) => each !== '')];
}

/** Adds the flags of a list to its command. */
export function addListFlags(command: Command, resource: Resource): void {
  const { includes, filterKeys, sortKeys, jsonColumns } = resource;
  const nested = jsonColumns.map((column) => `, or a key inside ${column}: '${column}->key=value'`).join('');
  command
    .option('--page <number>', 'which page, counted from 1')
    .option(
      '--paginate <number>',
      `records on a page; ${defaultPageSize} where it is left out, with --all api.page_size`,
    );
  if (includes !== null) {
    const help = `related records that come along, separated by commas: ${includes.join(', ')}`;
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
      `created then: ${datePresets.join(', ')}, or two days, 2026-01-01,2026-01-31; many servers end at the midnight ` +
        'with which the second day begins: for all of it, name the day after',
    )
    .option('--all', 'every page, each record once');
}

function wholeNumber(flag: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value > 0) return value;
  throw new UsageError(`${flag} must be a whole number above 0, not "${text}"`);
}

function filterOf(text: string): { key: string; value: string } {
  const at = text.indexOf('=');
  if (at > 0) return { key: text.slice(0, at).trim(), value: text.slice(at + 1) };
  throw new UsageError(`--filter "${text}" has no value`, { advice: 'Write it as --filter key=value.' });
}

function sortOf(text: string): { key: string; direction: string } {
  const [key = '', direction = 'asc', ...more] = text.split(':');
  if (more.length === 0) return { key, direction };
  throw new UsageError(`--sort "${text}" has too many parts`, { advice: 'Write it as --sort key:desc.' });
}

/** The flags as what a list is asked for, not yet checked against the resource. Throws a UsageError. */
export function listWordsOf(flags: ListFlags): ListWords {
  const paginate = wholeNumber('--paginate', flags.paginate);
  const page = wholeNumber('--page', flags.page);
  const sorts = flags.sort?.map(sortOf);
  if (flags.all === true && page !== undefined) {
    throw new UsageError('--all and --page do not go together: --all reads every page, from the first on', {
      advice: 'Leave one of them out.',
    });
  }
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
