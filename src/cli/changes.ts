/** `changes`: who changed what between two times, field by field, from the mirror's history. */
import { Argument, InvalidArgumentError, Option, type Command } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { dayMs, systemClock, timestampOf } from '../model/time.ts';
import { type QueryFormat, queryFormats } from '../data/formats.ts';
import type { CliContext } from './context.ts';
import { toMoment } from './flag-values.ts';
import { printWarning } from './output.ts';
import { tableRoom, writePaged } from './pager.ts';
import { changesChunks } from '../data/changes.ts';
import { openReading } from '../data/open.ts';
import { withReleases } from '../model/releases.ts';

interface Flags {
  /** In ms since 1970. */
  readonly since?: number;
  readonly until?: number;
  readonly id?: bigint;
  readonly format: QueryFormat;
  readonly pager: boolean;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('changes')
    .description(
      'Show which records came, changed and went between two times, field by field. Reads the mirror file, not the ' +
        'server: a time is when the mirror saw the change. Fields of history.ignore are left out.',
    )
    .addArgument(new Argument('[resource]', 'only this one; all where none is named').choices(resourceNames))
    .option(
      '--since <time>',
      'from this time on: a time, a day or 7d ago (default: 1d; with --id, all that is known)',
      toMoment(),
    )
    .option('--until <time>', 'up to this time, or to the end of this day (default: now)', toMoment(true))
    .option('--id <id>', 'only this record of the resource', toId)
    .addOption(
      new Option('--format <format>', 'how changes are printed; --json stands for json')
        .choices(queryFormats)
        .default('table'),
    )
    .option('--no-pager', 'print it all at once (default on a terminal: through $PAGER, else less)')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror changes --since 7d
  admin-mirror changes users --since 2026-03-01 --until 2026-03-31 --json
  admin-mirror changes --since 7d --format csv > changes.csv
  admin-mirror changes users --id 42`,
    )
    .action((resource: ResourceName | undefined, flags: Flags) => run(context, resource, flags));
}

async function run(context: CliContext, resource: ResourceName | undefined, flags: Flags): Promise<void> {
  if (flags.id !== undefined && resource === undefined) {
    throw new UsageError('--id says which record, and not of which resource', {
      advice: `Name one: ${resourceNames.join(', ')}. As in: admin-mirror changes users --id ${flags.id}`,
    });
  }
  const span = spanOf(flags);
  const { ignore } = context.settings().history;
  await withReleases(async (releases) => {
    const store = openReading(context.settings(), releases);
    const chunks = changesChunks(
      store,
      { resources: resource === undefined ? resourceNames : [resource], span, ignore },
      { format: context.json() ? 'json' : flags.format, room: tableRoom(context, flags.pager) },
      {
        signal: context.signal,
        // Without --since, no beginning can be missed.
        onWarning: (warning) => flags.since !== undefined && printWarning(context, warning),
      },
    );
    await writePaged(context, chunks, flags.pager);
  });
}

function spanOf({ since, until, id }: Flags) {
  const now = systemClock.now();
  const from = timestampOf(since ?? (id === undefined ? now - dayMs : 0));
  const to = timestampOf(until ?? now);
  if (from > to) throw new UsageError(`--since ${from} lies after --until ${to}`);
  return { from, to, ...(id === undefined ? {} : { id }) };
}

function toId(text: string): bigint {
  if (!/^-?\d{1,18}$/.test(text)) throw new InvalidArgumentError('An id is a whole number.');
  return BigInt(text);
}
