/** `bulk reconcile`: compares the journal with the server, and restores rows that the journal has lost. */
import type { Command } from 'commander';
import { balance } from '../../bulk/actions/balance.ts';
import { adopt, type Adopted, checkSettled } from '../../bulk/adopt.ts';
import { batchOf } from '../../bulk/claim.ts';
import type { Finding, Span } from '../../bulk/differences.ts';
import { acceptJournal } from '../../bulk/journal-memory.ts';
import { reconcile, type Reconciliation } from '../../bulk/reconcile.ts';
import { writeToStream } from '../../data/job-process.ts';
import { listChunks, type TextList } from '../../data/text-lines.ts';
import { namedColumns } from '../../data/text-table.ts';
import { counted } from '../../model/text.ts';
import { IncompleteError, UsageError } from '../../model/errors.ts';
import type { Row } from '../../data/reading-types.ts';
import type { CliContext } from '../context.ts';
import { addSpanFlags, checkSpan, formatOption, type SpanFlags } from '../flag-values.ts';
import { paint, printJson, printLines, printNote, printResult, tableRoom } from '../output.ts';
import { adoptRows } from './send.ts';
import { addSettleFlag, type BulkPorts, openBulk, reasonOf, type SendFlags } from './shared.ts';

const formats = ['table', 'csv', 'json'] as const;

interface Flags extends Pick<SendFlags, 'settleAfter' | 'reason'>, SpanFlags {
  readonly acceptJournal?: true;
  readonly adopt?: boolean;
  readonly format: (typeof formats)[number];
}

export function defineReconcile(bulk: Command, context: CliContext): void {
  const command = bulk
    .command('reconcile')
    .description(
      'Compare the balance changes in the journal with the transactions on the server: each mark must be there once, with the ' +
        'right amount, and no mark that the journal does not know. Changes nothing; ends with 5 if anything differs. With ' +
        '--adopt, record what is found: a journal that was lost or restored from a copy learns what was sent without it.',
    )
    .argument('[batch]', 'only this batch; without a name, every change of the journal, and every user');
  addSpanFlags(command, 'only what was sent')
    .option('--adopt', 'record what the journal lacks; with a batch, the outcome of its rows')
    .option('--accept-journal', 'accept this journal although it lacks rows that were sent; needs --reason')
    .option('--reason <text>', 'why; it stays on record')
    .addOption(formatOption('differences', formats))
    .addHelpText(
      'after',
      `
Before it starts, it prints how many requests it needs: one for each page of users, or one for each user of the batch.

Examples:
  admin-mirror bulk reconcile --since 2026-03-01 --until 2026-03-31 --format csv > march.csv
  admin-mirror bulk reconcile 20260311-102030-k7qa
  admin-mirror bulk reconcile --adopt
  admin-mirror bulk reconcile --accept-journal --reason "asked the shop: nothing was paid since Monday"`,
    )
    .action((batch: string | undefined, flags: Flags) => run(context, batch, flags));
  addSettleFlag(command);
}

async function run(context: CliContext, name: string | undefined, flags: Flags): Promise<void> {
  const accepted = flags.acceptJournal === true ? reasonOf('--accept-journal', flags.reason) : null;
  if (accepted === null && flags.reason !== undefined) {
    throw new UsageError('--reason needs --accept-journal', { advice: 'Add --accept-journal, or leave --reason out.' });
  }
  if (accepted !== null) return accept(context, name, accepted);
  const spanned = flags.since !== undefined || flags.until !== undefined;
  if (spanned && (name !== undefined || flags.adopt === true)) {
    const why = name === undefined ? '--adopt looks at everything' : 'a batch is compared whole';
    throw new UsageError(`${why}: leave --since and --until out`);
  }
  if (name !== undefined && flags.adopt === true) return adoptRows(context, name, flags);
  await compare(context, await openBulk(context), name, flags);
}

/** Records that a person accepts the journal, if the server cannot show whether it is the right one. */
async function accept(context: CliContext, name: string | undefined, reason: string): Promise<void> {
  if (name !== undefined) throw new UsageError('--accept-journal is about the whole journal: name no batch');
  const ports = await openBulk(context);
  await acceptJournal(ports, reason);
  const head = (await ports.journal.head()) ?? null;
  printResult(context, { status: 'accepted', head }, ['this journal is accepted']);
}

async function compare(
  context: CliContext,
  ports: BulkPorts,
  name: string | undefined,
  { since, until, adopt: adopts = false, settleAfter, format }: Flags,
): Promise<void> {
  const { journal } = ports;
  const { bulk } = context.settings();
  const batch = name === undefined ? null : await batchOf(journal, name);
  if (batch !== null && batch.action !== balance.name) {
    throw new UsageError(`batch ${batch.batch} changes no balances: there are no transactions to compare it with`, {
      advice: `\`admin-mirror bulk reconcile ${batch.batch} --adopt\` looks for its rows on the server.`,
    });
  }
  const span: Span = { from: since ?? null, to: until ?? null };
  checkSpan({ since, until });
  if (adopts) await checkSettled(ports, settleAfter ?? bulk.settleAfterMs);
  const announce = (requests: number) => printNote(context, announcement(requests));
  const found = await reconcile({ ...ports, announce }, { batch: batch?.batch ?? null, span });
  await report(context, format, found, adopts ? await adopt(ports, found) : null);
}

/** The default rate limit of servers of this API. */
const usualPerMinute = 60;

function announcement(requests: number): string {
  const minutes = Math.ceil(requests / usualPerMinute);
  const time = minutes > 1 ? `; at ${usualPerMinute} a minute, about ${minutes} minutes` : '';
  return `Reading the transactions of users: about ${counted(requests, 'more request')}${time}`;
}

async function report(
  context: CliContext,
  format: Flags['format'],
  found: Reconciliation,
  adopted: Adopted | null,
): Promise<void> {
  const { requests, users, rows, findings } = found;
  const differences = adopted?.left ?? findings;
  const { problems } = adopted ?? found;
  const status = problems.length > 0 ? 'incomplete' : differences.length > 0 ? 'different' : 'equal';
  const took =
    adopted === null ? {} : { adopted: { batch: adopted.batch, rows: adopted.rows, recorded: adopted.recorded } };
  if (context.json() || format === 'json') {
    printJson(context, { status, rows, users, requests, ...took, differences, problems });
  } else {
    const form = { format, room: tableRoom(context) };
    if (format === 'csv' || differences.length > 0) {
      await writeToStream(context.stdout, listChunks(findingList, differences, form, context.signal), context.signal);
    }
    const color = status === 'equal' ? 'green' : 'yellow';
    const summary =
      `${paint(context, color, status)}, ${counted(differences.length, 'difference')}: ` +
      `${counted(rows, 'row')}, ${counted(users, 'user')}, ${counted(requests, 'request')}`;
    if (format === 'table') printLines(context, [...(adopted === null ? [] : adoptedLines(adopted)), summary]);
  }
  if (problems.length > 0)
    throw new IncompleteError(`not everything was compared: ${problems.join('; ')}`, incompleteAdvice(adopted));
  if (differences.length === 0) return;
  throw new IncompleteError(`the journal and the server differ: ${counted(differences.length, 'difference')}`, {
    advice: 'Look at each of them on the server. docs/bulk.md says what each kind means and what to do about it.',
  });
}

function incompleteAdvice(adopted: Adopted | null) {
  if (adopted === null) return {};
  return {
    advice:
      'So this journal is not accepted yet. Check the users yourself, then accept it once: ' +
      '`admin-mirror bulk reconcile --accept-journal --reason "…"`.',
  };
}

function* adoptedLines({ batch, rows, recorded }: Adopted): Iterable<string> {
  if (batch !== null) yield `adopted   ${counted(rows, 'row')} that this journal did not know, as batch ${batch}`;
  if (recorded > 0) yield `recorded  ${counted(recorded, 'row')} of this journal that were applied without it`;
}

const columns = namedColumns(
  'kind, user_id, batch, row, state, type, amount, server_type, server_amount, times, at, record_id, token, note',
);

const findingList: TextList<Finding> = {
  columns,
  rowsOf: (finding) => [rowOf(finding)],
  jsonOf: (finding) => JSON.stringify(finding),
  head: '"differences": ',
};

function rowOf(finding: Finding): Row {
  const cells: Readonly<Record<string, string | number | null>> = { ...finding };
  return columns.map(({ name }) => cells[name] ?? null);
}
