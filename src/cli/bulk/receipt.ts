/** `bulk receipt` and `audit --check-receipt`: a signed document about a batch, and whether one is as it was signed. */
import { extname, resolve } from 'node:path';
import { checkReceipt } from '../../bulk/check-receipt.ts';
import { type ReceiptFormat, receiptFormats, type ReceiptHead, receiptOf } from '../../bulk/receipt.ts';
import { countWords } from '../../bulk/report.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { keyFiles, openCheckingKey, openSigningKey } from '../../journal/signing-key.ts';
import { counted } from '../../model/counted.ts';
import { withReleases } from '../../model/releases.ts';
import { onOneLine } from '../../model/terminal-text.ts';
import { systemClock } from '../../model/time.ts';
import { writeDurableFile } from '../../store/files/durable-file.ts';
import type { CliContext } from '../context.ts';
import { paint, printJson, printLine, printNote } from '../output.ts';
import { exitOf, named } from './look.ts';
import { newFile } from './review.ts';
import { withJournal } from './world.ts';

export interface ReceiptFlags {
  readonly output?: string;
  readonly format?: ReceiptFormat;
  readonly force?: true;
}

export async function runReceipt(context: CliContext, name: string, flags: ReceiptFlags): Promise<void> {
  await withJournal(context, async (found) => {
    const [journal, batch] = await named(found, name);
    const ending = receiptFormats.find((each) => extname(flags.output ?? '').toLowerCase() === `.${each}`);
    const format = flags.format ?? ending ?? 'json';
    const file = flags.output ?? `receipt-${batch.batch}.${format}`;
    const path = newFile(context, file, flags.force === true);
    const { journal: journalFile } = context.settings().store;
    const { key, isNew } = openSigningKey(journalFile);
    const files = keyFiles(journalFile);
    if (isNew) for (const line of keyLines(files, key.id)) printNote(context, line);
    let head: ReceiptHead | undefined;
    const chunks = receiptOf(journal, batch, { format, key, clock: systemClock, onHead: (made) => void (head = made) });
    const bytes = await writeDurableFile(path, chunks, context.signal);
    if (head === undefined) throw new Error('a receipt has no head');
    exitOf(context, [head]);
    if (context.json()) {
      const { batch: about, state, settled, rows, counts, key_id, head: newest } = head;
      printJson(context, {
        file,
        format,
        bytes,
        batch: about,
        state,
        settled,
        rows,
        counts,
        key_id,
        public_key: files.checking,
        head: newest,
      });
      return;
    }
    for (const line of aboutLines(head)) printLine(context, line);
    printLine(context, `${file}  ${counted(bytes, 'byte')}; check it with ${files.checking}`);
  });
}

/** What is said of a pair that was made now. */
export function keyLines({ signing, checking }: ReturnType<typeof keyFiles>, id: string): string[] {
  return [
    `written: ${signing}, which signs receipts and certificates, for its owner alone`,
    `written: ${checking}, which checks them: give it to whoever shall (key ${id})`,
  ];
}

function aboutLines(head: ReceiptHead): string[] {
  return [
    `batch     ${onOneLine(head.batch)}, ${onOneLine(head.state)}, written ${onOneLine(head.written_at)}`,
    `rows      ${head.rows}: ${countWords(head)}`,
    ...(head.settled ? [] : ['open      the batch is not done: what became of some rows was not known yet']),
    ...(head.head === null ? [] : [`head      step ${head.head.step}, ${onOneLine(head.head.hash)}`]),
    `key       ${onOneLine(head.key_id)}`,
  ];
}

/** Ends with 6 where the receipt is not as it was signed, or says something else than its rows or the journal. */
export async function checkReceiptFile(context: CliContext, file: string, keyFile: string | undefined): Promise<void> {
  const settings = context.settings();
  const key = openCheckingKey(
    keyFile === undefined ? keyFiles(settings.store.journal).checking : resolve(context.folder, keyFile),
  );
  await withReleases(async (releases) => {
    const journal = await openJournalForReading(settings, systemClock, releases);
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
      printJson(context, { status, file, format, key_id: key.id, ...about, problems, journal: compared, not_compared });
      return;
    }
    for (const problem of problems) printLine(context, `${paint(context, 'red', 'differs')}   ${onOneLine(problem)}`);
    printLine(context, `${paint(context, status === 'genuine' ? 'green' : 'red', status)}   ${onOneLine(file)}`);
    if (head !== null && status === 'genuine') for (const line of aboutLines(head)) printLine(context, line);
    if (compared === null) return printLine(context, `journal   not compared: ${not_compared}`);
    const changed = compared.changed_since;
    const since = changed === 0 ? '' : `; since then, something was done with ${counted(changed, 'row')} of it`;
    if (status === 'genuine') printLine(context, `journal   says the same${since}`);
  });
}
