/** `bulk receipt` and `audit --check-receipt`: writes a signed document about a batch, and checks one. */
import { extname, resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { checkReceipt } from '../../bulk/check-receipt.ts';
import { type ReceiptFormat, receiptFormats, type ReceiptHead, receiptOf } from '../../bulk/receipt.ts';
import { countWords } from '../../bulk/report.ts';
import { keyFiles, openCheckingKey, openSigningKey } from '../../journal/signing-key.ts';
import { counted, onOneLine } from '../../model/text.ts';
import { systemClock } from '../../model/time.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { CliContext } from '../context.ts';
import { newFile } from '../files.ts';
import { paint, printJson, printLine, printLines, printNote, printResult } from '../output.ts';
import { batchToLookAt, lookAtJournal, lookHelp, setExitCode } from './shared.ts';

interface ReceiptFlags {
  readonly output?: string;
  readonly format?: ReceiptFormat;
  readonly force?: true;
}

export function defineReceipt(bulk: Command, context: CliContext): void {
  bulk
    .command('receipt')
    .description(
      'Write one signed document about a batch: who planned, approved and sent it, the outcome of every row and what proves it. ' +
        '`audit --check-receipt` proves later that nothing in it was changed.',
    )
    .argument('<batch>', lookHelp)
    .option('-o, --output <file>', 'a new file (default: receipt-<batch>.json or .html in the working folder)')
    .addOption(
      new Option(
        '--format <format>',
        'json for programs, or html for people and printers (default: from the name of the file, else json)',
      ).choices(receiptFormats),
    )
    .option('--force', 'replace the file if it exists')
    .action((batch: string, flags: ReceiptFlags) => runReceipt(context, batch, flags));
}

async function runReceipt(context: CliContext, name: string, flags: ReceiptFlags): Promise<void> {
  const [journal, batch] = await batchToLookAt(context, name);
  const ending = receiptFormats.find((each) => extname(flags.output ?? '').toLowerCase() === `.${each}`);
  const format = flags.format ?? ending ?? 'json';
  const file = flags.output ?? `receipt-${batch.batch}.${format}`;
  const path = newFile(context, file, flags.force === true);
  const { journal: journalFile } = context.settings().store;
  const key = signingKey(context, journalFile);
  const { checking } = keyFiles(journalFile);
  let head: ReceiptHead | undefined;
  const chunks = receiptOf(journal, batch, { format, key, clock: systemClock, onHead: (made) => void (head = made) });
  const bytes = await writeDurableFile(path, chunks, context.signal);
  if (head === undefined) throw new Error('a receipt has no head');
  setExitCode(context, [head]);
  const { state, settled, rows, counts, key_id } = head;
  const about = { batch: head.batch, state, settled, rows, counts, key_id, public_key: checking, head: head.head };
  const line = `${file}  ${counted(bytes, 'byte')}; check it with ${checking}`;
  printResult(context, { file, format, bytes, ...about }, [...aboutLines(head), line]);
}

/** Opens the key beside the journal that signs receipts and certificates. If it is new, notes where it was written. */
export function signingKey(context: CliContext, journal: string) {
  const { key, isNew } = openSigningKey(journal);
  if (!isNew) return key;
  const { signing, checking } = keyFiles(journal);
  printNote(context, `written: ${signing}, the key that signs receipts and certificates; only its owner can read it`);
  printNote(context, `written: ${checking}, the public key that checks them (key ${key.id})`);
  return key;
}

/** Opens the public key: from the file, if one was named, else the one beside the journal. */
export function checkingKey(context: CliContext, file: string | undefined) {
  const { journal } = context.settings().store;
  return openCheckingKey(file === undefined ? keyFiles(journal).checking : resolve(context.folder, file));
}

/** Prints what differs in a signed document, whether it is genuine, and if so, what it says. */
export function printCheck(
  context: CliContext,
  { status, file, problems }: { readonly status: string; readonly file: string; readonly problems: readonly string[] },
  about: readonly string[],
): void {
  for (const each of problems) printLine(context, `${paint(context, 'red', 'differs')}   ${onOneLine(each)}`);
  const isGenuine = status === 'genuine';
  printLine(context, `${paint(context, isGenuine ? 'green' : 'red', status)}   ${onOneLine(file)}`);
  if (isGenuine) printLines(context, about);
}

function aboutLines(head: ReceiptHead): string[] {
  return [
    `batch     ${onOneLine(head.batch)}, ${onOneLine(head.state)}, written ${onOneLine(head.written_at)}`,
    `rows      ${head.rows}: ${countWords(head)}`,
    ...(head.settled ? [] : ['open      the batch is not done: the outcome of some rows was not known yet']),
    ...(head.head === null ? [] : [`head      step ${head.head.step}, ${onOneLine(head.head.hash)}`]),
    `key       ${onOneLine(head.key_id)}`,
  ];
}

/** Checks a receipt. The exit code is 6 if it was changed after signing, or contradicts its own rows or the journal. */
export async function checkReceiptFile(context: CliContext, file: string, keyFile: string | undefined): Promise<void> {
  const key = checkingKey(context, keyFile);
  const journal = await lookAtJournal(context);
  const check = await checkReceipt(resolve(context.folder, file), key, journal, context.signal);
  const { status, format, problems, head, journal: compared, not_compared } = check;
  if (status === 'refused') context.exit(6);
  if (context.json()) {
    const about = head && {
      batch: head.batch,
      state: head.state,
      settled: head.settled,
      written_at: head.written_at,
    };
    const document = { status, file, format, key_id: key.id, ...about, problems, journal: compared, not_compared };
    return printJson(context, document);
  }
  printCheck(context, { status, file, problems }, head === null ? [] : aboutLines(head));
  if (compared === null) return printLine(context, `journal   not compared: ${not_compared}`);
  const changed = compared.changed_since;
  const since = changed === 0 ? '' : `; ${counted(changed, 'row')} of it changed since then`;
  if (status === 'genuine') printLine(context, `journal   says the same${since}`);
}
