/** `bulk receipt`: writes a document about a batch, for people to read, print and keep. */
import { basename, extname } from 'node:path';
import { type Command, Option } from 'commander';
import { type ReceiptFormat, receiptFormats, type ReceiptHead, receiptOf } from '../../bulk/receipt.ts';
import { countWords } from '../../bulk/report.ts';
import { counted, onOneLine } from '../../model/text.ts';
import { systemClock } from '../../model/time.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import { manifestBeside, manifestHead, measured, writeManifest } from '../../store/files/manifest.ts';
import type { CliContext } from '../context.ts';
import { newFile } from '../files.ts';
import { printResult } from '../output.ts';
import { batchToLookAt, lookHelp, setExitCode } from './shared.ts';

interface ReceiptFlags {
  readonly output?: string;
  readonly format?: ReceiptFormat;
  readonly force?: true;
}

export function defineReceipt(bulk: Command, context: CliContext): void {
  bulk
    .command('receipt')
    .description(
      'Write one document about a batch: who planned, approved and sent it, the outcome of every row and what proves it.',
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
  let head: ReceiptHead | undefined;
  const { chunks, end } = measured(
    receiptOf(journal, batch, { format, clock: systemClock, onHead: (made) => void (head = made) }),
  );
  const bytes = await writeDurableFile(path, chunks, context.signal);
  if (head === undefined) throw new Error('a receipt has no head');
  const manifest = {
    ...manifestHead('admin-mirror bulk receipt', systemClock),
    batch: head.batch,
    complete: head.settled,
    journal_head: head.head,
    files: [{ file: basename(path), ...end(), rows: head.rows }],
  };
  await writeManifest(manifestBeside(path), manifest, context.signal);
  setExitCode(context, [head]);
  const { state, settled, rows, counts } = head;
  const about = { batch: head.batch, state, settled, rows, counts, head: head.head };
  const line = `${file}  ${counted(bytes, 'byte')}`;
  printResult(context, { file, format, bytes, ...about }, [...aboutLines(head), line]);
}

function aboutLines(head: ReceiptHead): string[] {
  return [
    `batch     ${onOneLine(head.batch)}, ${onOneLine(head.state)}, written ${onOneLine(head.written_at)}`,
    `rows      ${head.rows}: ${countWords(head)}`,
    ...(head.settled ? [] : ['open      the batch is not done: the outcome of some rows was not known yet']),
    ...(head.head === null ? [] : [`head      step ${head.head.step}, ${onOneLine(head.head.hash)}`]),
  ];
}
