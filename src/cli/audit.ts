/** `audit`: shows who did what, from the journal's chain, and checks whether chain and tables were altered. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type QueryFormat, queryFormats } from '../data/formats.ts';
import { listChunks, type TextList } from '../data/text-lines.ts';
import type { Row } from '../data/reading-types.ts';
import { namedColumns, tableText } from '../data/text-table.ts';
import { writeToStream } from '../data/job-process.ts';
import { type Act, newestActs } from '../journal/acts.ts';
import type { AuditEntry, AuditFilter } from '../journal/audit.ts';
import type { Journal } from '../journal/port.ts';
import { actorText } from '../model/actor.ts';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { timestampOf, unlessAborted } from '../model/time.ts';
import { lookAtJournal } from './bulk/shared.ts';
import type { CliContext } from './context.ts';
import { addSpanFlags, checkSpan, type SpanFlags, toWholeNumber } from './flag-values.ts';
import { paint, printLines, printNote, printResult, tableRoom } from './output.ts';

interface Flags extends SpanFlags {
  readonly person?: string;
  readonly batch?: string;
  readonly user?: number;
  readonly verify?: true;
  readonly head?: string;
  readonly format?: QueryFormat;
}

/** Flags that make sense only if steps are listed. */
const listFlags = ['since', 'until', 'person', 'batch', 'user', 'format'];

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('audit')
    .description(
      'Show who did what, from the journal: a line for each act, such as sending a batch. With --verbose, --batch or another ' +
        'format, each step: who planned, approved and sent each row, what is known of it and what proves it. With --verify, ' +
        'check whether anything but this program altered the journal. Reads the journal file, not the server, and changes ' +
        'nothing.',
    );
  addSpanFlags(command, 'what was done', ' (default: all that is known)')
    .option('--person <name>', 'only what this person did: an account, a job, a name, or name@host')
    .option('--batch <batch>', 'only this batch')
    .option(
      '--user <id>',
      'only what is about this user of the server, and the batches that the user is in',
      toWholeNumber,
    )
    .addOption(
      new Option('--verify', 'check every step and every record; ends with 6 if something was altered').conflicts(
        listFlags,
      ),
    )
    .option('--head <hash>', 'with --verify: a head from an earlier --verify, which must be among the steps', toHash)
    .addOption(
      new Option('--format <format>', 'how to print them; --json means json (default: table)').choices(queryFormats),
    )
    .addHelpText(
      'after',
      `
Each step of the journal holds the hash of the step before. Keep the head that --verify prints in another place: with --head
you can prove later that no step up to it was removed.

Examples:
  admin-mirror audit --since 2026-03-01 --until 2026-03-31 --user 42
  admin-mirror audit --since 30d --person anna --format csv > anna.csv
  admin-mirror audit --verify`,
    )
    .action(async (flags: Flags) => {
      if (flags.head !== undefined && flags.verify === undefined) {
        throw new UsageError('--head needs --verify', {
          advice: 'Add --verify, or leave --head out.',
        });
      }
      await (flags.verify === true ? verify(context, flags.head) : list(context, flags));
    });
}

async function verify(context: CliContext, head: string | undefined): Promise<void> {
  const report = await unlessAborted((await openJournalOf(context)).verifyChain(head), context.signal);
  if (report.status === 'broken') context.exit(6);
  const { status, steps, problems } = report;
  const isWhole = status === 'whole';
  printResult(context, report, [
    ...problems.map((problem) => `${paint(context, 'red', 'altered')}  ${problem}`),
    `${paint(context, isWhole ? 'green' : 'red', status)}, ${counted(steps, 'step')} checked`,
    ...(isWhole && report.head !== null ? [`head      step ${report.head.step}, ${report.head.hash}`] : []),
  ]);
}

async function openJournalOf(context: CliContext): Promise<Journal> {
  const journal = await lookAtJournal(context);
  if (journal !== undefined) return journal;
  throw new UsageError(`there is no journal at ${context.settings().store.journal}`, {
    advice: 'Nothing was planned or sent yet, or the journal is another file: name it with --journal.',
  });
}

async function list(context: CliContext, flags: Flags): Promise<void> {
  const filter = filterOf(flags);
  const journal = await openJournalOf(context);
  if (filter.batch !== undefined && (await journal.batch(filter.batch)) === undefined) {
    throw new UsageError(`there is no batch ${filter.batch}`, { advice: '`admin-mirror bulk status` lists all.' });
  }
  const format = context.json() ? 'json' : (flags.format ?? 'table');
  const form = { format, room: tableRoom(context) };
  if (format === 'table' && filter.batch === undefined && !context.verbose()) {
    const { currency } = context.settings().bulk;
    const { acts, isMore } = await newestActs(journal.audit(filter, 'desc'), maxRead, currency);
    printLines(context, tableText(actColumns, acts.map(rowOf), form.room));
    if (isMore) printNote(context, 'These are the newest acts. --until shows earlier ones.');
    return;
  }
  await writeToStream(context.stdout, listChunks(steps, journal.audit(filter), form, context.signal), context.signal);
}

function filterOf({ since, until, person, batch, user }: Flags): AuditFilter {
  checkSpan({ since, until });
  return {
    ...(since !== undefined && { since: timestampOf(since) }),
    // The filter leaves out what is at its end.
    ...(until !== undefined && { until: timestampOf(until + 1) }),
    ...(person !== undefined && { person }),
    ...(batch !== undefined && { batch }),
    ...(user !== undefined && { user }),
  };
}

/** To keep them in memory. */
const maxRead = 100_000;

const actColumns = namedColumns('time, who, steps, what');

function rowOf({ words, steps }: Act): Row {
  const [{ at, actor }] = steps;
  return [at, actorText(actor), steps.length, words];
}

const steps: TextList<AuditEntry> = {
  columns: namedColumns('time, who, what, batch, row, user, action, type, amount, state, evidence, record_id, note'),
  rowsOf: ({ actor, kind, batch, row, user, ...rest }) => {
    const { at, action, type, amount, state, evidence, recordId, note } = rest;
    return [[at, actorText(actor), kind, batch, row, user, action, type, amount, state, evidence, recordId, note]];
  },
  jsonOf: ({ recordId, ...entry }) => JSON.stringify({ ...entry, record_id: recordId }),
  head: '"steps": ',
};

function toHash(text: string): string {
  if (/^[0-9a-f]{64}$/i.test(text)) return text.toLowerCase();
  throw new InvalidArgumentError('A head is 64 hexadecimal digits, as `audit --verify` prints it.');
}
