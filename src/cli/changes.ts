/** `changes`: shows what changed between two times, field by field, from the mirror's history. */
import { Argument, type Command, InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { dayMs, systemClock, timestampOf } from '../model/time.ts';
import { type QueryFormat, queryFormats } from '../data/formats.ts';
import type { CliContext } from './context.ts';
import { addSpanFlags, checkSpan, formatOption, toCount, toMoment } from './flag-values.ts';
import { printNote, printWarning, tableRoom } from './output.ts';
import { changesChunks, followChunks } from '../data/changes.ts';
import { openReading } from '../data/open.ts';
import { writeToStream } from '../data/job-process.ts';
import { startCursor } from '../store/cursor.ts';

interface Flags {
  /** In ms since 1970. */
  readonly since?: number | { readonly cursor: string };
  readonly follow?: boolean;
  readonly until?: number;
  readonly id?: bigint;
  readonly kind?: (typeof kinds)[number];
  readonly field?: string;
  readonly limit?: number;
  readonly format: QueryFormat;
}

const kinds = ['inserted', 'updated', 'deleted'] as const;

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('changes')
    .description(
      'Show which records were added, changed and deleted between two times, field by field. Reads the mirror file, not the ' +
        'server: a time is when the mirror saw the change. Leaves out the fields in history.ignore.',
    )
    .addArgument(new Argument('[resource]', 'only this resource (default: all)').choices(resourceNames));
  const given = ' (default: 1d; with --id, all that is known); with --follow also a cursor';
  addSpanFlags(command, 'what changed', given, toStart)
    .option('--id <id>', 'only this record of the resource', toId)
    .addOption(new Option('--kind <kind>', 'only changes of this kind').choices(kinds))
    .option('--field <name>', 'only updates that changed this field')
    .option('--limit <n>', 'at most this many changes, the oldest', toCount)
    .addOption(formatOption('changes', queryFormats))
    .option('--follow', 'print changes as they are written, until you stop it; then print the cursor for the next time')
    .addHelpText(
      'after',
      `
Examples:
  admin-mirror changes --since 7d
  admin-mirror changes users --since 2026-03-01 --until 2026-03-31 --json
  admin-mirror changes --since 7d --format csv > changes.csv
  admin-mirror changes users --id 42
  admin-mirror changes users --field balance --since 30d
  admin-mirror changes --follow --json`,
    )
    .action((resource: ResourceName | undefined, flags: Flags) => run(context, resource, flags));
}

async function run(context: CliContext, resource: ResourceName | undefined, flags: Flags): Promise<void> {
  if (flags.id !== undefined && resource === undefined) {
    throw new UsageError('--id needs a resource', {
      advice: `Name one: ${resourceNames.join(', ')}. As in: admin-mirror changes users --id ${flags.id}`,
    });
  }
  if (flags.follow === true) return follow(context, resource, flags);
  const span = spanOf(flags);
  const { ignore } = context.settings().history;
  const store = openReading(context.settings(), context.releases);
  const chunks = changesChunks(
    store,
    {
      resources: resource === undefined ? resourceNames : [resource],
      span,
      ignore,
      kind: flags.kind,
      field: flags.field,
      limit: flags.limit,
    },
    { format: context.json() ? 'json' : flags.format, room: tableRoom(context) },
    {
      signal: context.signal,
      // The warning is about a history that begins after --since.
      onWarning: (warning) => flags.since !== undefined && printWarning(context, warning),
    },
  );
  await writeToStream(context.stdout, chunks, context.signal);
}

async function follow(context: CliContext, resource: ResourceName | undefined, flags: Flags): Promise<void> {
  const { since, until, id, kind, field, limit } = flags;
  if (until !== undefined) throw new UsageError('--follow runs until it is stopped: it cannot be used with --until');
  if (id !== undefined) throw new UsageError('--follow shows all records of a resource: it cannot be used with --id');
  if (kind !== undefined || field !== undefined || limit !== undefined) {
    throw new UsageError('--follow shows all changes: it cannot be used with --kind, --field or --limit');
  }
  const settings = context.settings();
  let cursor: string | undefined;
  const request = {
    resources: resource === undefined ? resourceNames : [resource],
    ignore: settings.history.ignore,
    since: typeof since === 'number' ? { at: timestampOf(since) } : since,
    format: context.json() ? ('jsonl' as const) : flags.format,
  };
  const store = openReading(settings, context.releases);
  const { signal } = context;
  const onCursor = (of: string) => void (cursor = of);
  try {
    await writeToStream(context.stdout, followChunks(request, { store, signal, onCursor }), signal);
  } finally {
    if (cursor !== undefined) printNote(context, `continue with --since ${cursor}`);
  }
}

function toStart(text: string): NonNullable<Flags['since']> {
  return text === startCursor || /^[0-9a-f]{12}\.[0-9a-f]{12}\.\d+$/.test(text) ? { cursor: text } : toMoment()(text);
}

function spanOf({ since, until, id }: Flags) {
  if (typeof since === 'object') {
    throw new UsageError(`--since ${since.cursor} is a cursor, which needs --follow`, {
      advice: 'Add --follow, or give a time. `admin-mirror export --changed-since` writes what changed as rows.',
    });
  }
  const now = systemClock.now();
  const span = { since: since ?? (id === undefined ? now - dayMs : 0), until: until ?? now };
  checkSpan(span);
  return { from: timestampOf(span.since), to: timestampOf(span.until), ...(id === undefined ? {} : { id }) };
}

function toId(text: string): bigint {
  if (!/^-?\d{1,18}$/.test(text)) throw new InvalidArgumentError('An id is a whole number.');
  return BigInt(text);
}
