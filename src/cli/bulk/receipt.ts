/** `bulk receipt`: writes a page about a batch, for people to read, print and keep. */
import { basename } from 'node:path';
import type { Command } from 'commander';
import { type ReceiptHead, receiptOf } from '../../bulk/receipt.ts';
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
  readonly force?: true;
}

export function defineReceipt(bulk: Command, context: CliContext): void {
  bulk
    .command('receipt')
    .description(
      'Write one page about a batch to print and keep: who planned, approved and sent it, the outcome of every row and what proves it.',
    )
    .argument('<batch>', lookHelp)
    .option('-o, --output <file>', 'a new .html file (default: receipt-<batch>.html in the working folder)')
    .option('--force', 'replace the file if it exists')
    .action((batch: string, flags: ReceiptFlags) => runReceipt(context, batch, flags));
}

async function runReceipt(context: CliContext, name: string, flags: ReceiptFlags): Promise<void> {
  const [journal, batch] = await batchToLookAt(context, name);
  const file = flags.output ?? `receipt-${batch.batch}.html`;
  const path = newFile(context, file, flags.force === true);
  let head: ReceiptHead | undefined;
  const { chunks, end } = measured(
    receiptOf(journal, batch, {
      clock: systemClock,
      currency: context.settings().bulk.currency,
      onHead: (made) => void (head = made),
    }),
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
  printResult(context, { file, bytes, ...about }, [...aboutLines(head), line]);
}

function aboutLines(head: ReceiptHead): string[] {
  return [
    `batch     ${onOneLine(head.batch)}, ${onOneLine(head.state)}, written ${onOneLine(head.written_at)}`,
    `rows      ${head.rows}: ${countWords(head)}`,
    ...(head.settled ? [] : ['open      the batch is not done: the outcome of some rows was not known yet']),
    ...(head.head === null ? [] : [`head      step ${head.head.step}, ${onOneLine(head.head.hash)}`]),
  ];
}
