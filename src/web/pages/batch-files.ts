/** What can be downloaded of a batch: its sheets, its results, its receipt. */
import { receiptFormats, receiptOf } from '../../bulk/receipt.ts';
import { manifestText, resultChunks, resultFiles } from '../../bulk/results.ts';
import { reviewTable, wrongTable } from '../../bulk/review.ts';
import { tableWriter } from '../../data/table-file.ts';
import { openJournalForReading } from '../../journal/open.ts';
import { openSigningKey } from '../../journal/signing-key.ts';
import { Releases } from '../../model/releases.ts';
import { type TableFormat, tableFormats } from '../../model/table.ts';
import { type ConsolePorts, notFound, type Reply, type Visit } from '../route.ts';
import { textChunks } from './batches.ts';
import { batchIn } from './batches.ts';

/** `wrong.csv`: the format after the name. */
function formatOf(name: string, file: string): TableFormat {
  const format = tableFormats.find((each) => file === `${name}.${each}`);
  if (format === undefined) throw notFound('there is no such file');
  return format;
}

const types = {
  csv: 'text/csv; charset=utf-8',
  xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
} as const satisfies Record<TableFormat, string>;

function writerOf(format: TableFormat, { signal }: Visit) {
  return tableWriter(format, signal, () => {});
}

/** The rows that are wrong, or all of them to look through. */
export async function sheetFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const file = visit.params['sheet'] ?? '';
  const name = file.startsWith('wrong.') ? 'wrong' : 'review';
  const format = formatOf(name, file);
  const table = name === 'wrong' ? wrongTable(ports.journal, batch) : reviewTable(ports.journal, batch);
  const chunks = writerOf(format, visit).chunks(table);
  return { kind: 'file', name: `${name}-${batch.batch}.${format}`, type: types[format], chunks };
}

/** One of the files of results, as it is now. */
export async function resultsFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const file = visit.params['result'] ?? '';
  if (file === 'manifest.json') {
    const text = await manifestText(ports, batch, writerOf('csv', visit));
    return { kind: 'file', name: file, type: 'application/json', chunks: textChunks(text) };
  }
  const name = resultFiles.find((each) => file.startsWith(`${each}.`));
  if (name === undefined) throw notFound('there is no such file');
  const format = formatOf(name, file);
  const chunks = resultChunks(ports.journal, batch, name, writerOf(format, visit));
  return { kind: 'file', name: file, type: types[format], chunks };
}

/** The receipt, signed with the key beside the journal, which is made where there is none. */
export async function receiptFile(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  const { settings, clock } = ports;
  const format = receiptFormats.find((each) => visit.params['receipt'] === `receipt.${each}`);
  if (format === undefined) throw notFound('there is no such file');
  const { key } = openSigningKey(settings.store.journal);
  async function* chunks(): AsyncGenerator<Uint8Array> {
    const releases = new Releases();
    try {
      // One of its own: a journal does nothing else while it is read at one moment.
      const journal = await openJournalForReading(settings, clock, releases);
      if (journal !== undefined) yield* receiptOf(journal, batch, { format: format ?? 'json', key, clock });
    } finally {
      await releases.close();
    }
  }
  const type = format === 'json' ? 'application/json' : 'text/html; charset=utf-8';
  return { kind: 'file', name: `receipt-${batch.batch}.${format}`, type, chunks: chunks() };
}
