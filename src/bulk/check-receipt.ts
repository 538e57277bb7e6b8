/**
 * Checks that a receipt is as it was signed, that its rows add up to its totals, and, if the journal is at hand, that the journal
 * says the same. Reads line by line and trusts nothing in the file. Section "Receipts" of docs/architecture.md.
 */
import { z } from 'zod';
import type { Intent, IntentState, Journal } from '../journal/port.ts';
import {
  firstDifference,
  jsonOf,
  LineReader,
  NoDocument,
  readDocument,
  signatureIn,
  signatureProblems,
  signedText,
} from '../journal/signed-document.ts';
import type { CheckingKey } from '../journal/signing-key.ts';
import { counted } from '../model/text.ts';
import { explainFileError } from '../model/files.ts';
import { countNames, countsOf, intentStates } from './intent.ts';
import {
  dataBegins,
  dataEnds,
  inPage,
  outcomeSums,
  pageBegins,
  receiptForm,
  type ReceiptFormat,
  type ReceiptHead,
  receiptKind,
  receiptRow,
  type ReceiptRow,
  sealLine,
} from './receipt.ts';
import { unlessAborted } from '../model/time.ts';

/** Throws a FileError if the file cannot be read. @param journal compared with the receipt if the receipt is from it */
export async function checkReceipt(file: string, key: CheckingKey, journal: Journal | undefined, signal: AbortSignal) {
  if (journal === undefined) return check(file, key, undefined, signal);
  const checks = journal.atOneMoment(async function* (frozen) {
    yield await check(file, key, frozen, signal);
  });
  for await (const each of checks) return each;
  throw new Error('a receipt was not checked');
}

async function check(file: string, key: CheckingKey, journal: Journal | undefined, signal: AbortSignal) {
  const lines = new LineReader(file, signal);
  const problems: string[] = [];
  let format: ReceiptFormat = 'json';
  let head: ReceiptHead | null = null;
  let comparison: Comparison | null = null;
  let reason: string | null = journal === undefined ? 'no journal' : null;
  try {
    let line = await lines.next();
    if (line === pageBegins) {
      format = 'html';
      while (line !== dataBegins) line = await lines.next();
      line = await lines.next();
    }
    const shapes = { head: headShape, part: rowShape, ...(format === 'html' && { written: inPage }) };
    const document = readDocument(lines, line, receiptForm, shapes);
    head = document.head as unknown as ReceiptHead;
    if (journal?.id === head.journal) comparison = await comparisonWith(journal, head, signal);
    else reason ??= 'the journal here is another one';
    const tally = tallyOf();
    for await (const part of document.parts) {
      const row = part as unknown as ReceiptRow;
      tally.add(row);
      await comparison?.compare(row);
    }
    const signed = [{ ...document.signed(), what: 'it says' }];
    if (format === 'html') {
      if ((await lines.next()) !== dataEnds) throw new NoDocument('the data does not end here');
      const signature = signatureIn(await lines.next(), 'receipt', sealLine);
      signed.push({ signature, text: signedText('page', lines.before), what: 'the page shows' });
    }
    await lines.end();
    problems.push(...signatureProblems(key, head, signed));
    problems.push(...tally.differences(head), ...((await comparison?.end()) ?? []));
  } catch (error) {
    if (!(error instanceof NoDocument)) throw explainFileError(error, 'read the receipt', file) ?? error;
    // Nothing else is reported: it would only follow from this.
    problems.push(`line ${lines.number}: ${error.message}`);
    [comparison, reason] = [null, 'it is none that could be'];
  } finally {
    await lines.close();
  }
  return {
    status: problems.length === 0 ? ('genuine' as const) : ('refused' as const),
    format,
    /** What it says about the batch: true only if it is genuine; null if it cannot be read. */
    head,
    /** Why it is refused, the first difference first. */
    problems,
    /** Null if it was not compared with the journal; otherwise how many rows have changed since it was written. */
    journal: comparison && { changed_since: comparison.changedSince() },
    not_compared: reason,
  };
}

const text = z.string().nullable();

const headShape = z.looseObject({
  receipt: z.literal(receiptKind),
  batch: z.string(),
  action: z.string(),
  journal: z.string(),
  key_id: z.string(),
  plan_hash: z.string(),
  state: z.string(),
  settled: z.boolean(),
  written_at: z.string(),
  rows: z.int(),
  discrepancies: z.int(),
  counts: z.record(z.string(), z.int()),
  outcomes: z.record(z.enum(countNames), z.looseObject({})),
  head: z.looseObject({ step: z.int(), hash: z.string() }).nullable(),
  steps: z.array(z.looseObject({ step: z.int() })),
});

const rowShape = z.looseObject({
  row: z.int(),
  state: z.enum(intentStates),
  planned_before: text,
  planned_after: text,
  before: text,
  after: text,
  discrepancy: z.enum(['balance', 'over_applied']).nullable(),
});

function tallyOf() {
  const states: Partial<Record<IntentState, number>> = {};
  const sums = outcomeSums();
  let [rows, discrepancies] = [0, 0];
  return {
    add: (row: ReceiptRow): void => {
      rows += 1;
      states[row.state] = (states[row.state] ?? 0) + 1;
      if (row.discrepancy !== null) discrepancies += 1;
      sums.add({ ...row, plannedBefore: row.planned_before, plannedAfter: row.planned_after });
    },
    differences: (head: ReceiptHead): string[] => {
      // A request to remove rows of the mirror has no rows of its own.
      if (head.action === 'deletions') return rows === 0 ? [] : ['it has rows, and a request to remove some has none'];
      const counts = countsOf(states);
      const own = { rows, discrepancies, counts, outcomes: sums.end(counts) };
      return (Object.keys(own) as (keyof typeof own)[]).flatMap((name) => {
        const [found, said] = [jsonOf({ is: own[name] }), jsonOf({ is: head[name] })];
        return found === said ? [] : [`its rows make ${name} ${found.slice(6, -1)}, and it says ${said.slice(6, -1)}`];
      });
    },
  };
}

type Comparison = Awaited<ReturnType<typeof comparisonWith>>;

const maxListed = 20;

async function comparisonWith(journal: Journal, head: ReceiptHead, signal: AbortSignal) {
  const chain = await unlessAborted(journal.verifyChain(head.head?.hash), signal);
  const problems = chain.problems.map((each) => `the journal: ${each}`);
  const batch = await journal.batch(head.batch);
  if (batch === undefined) problems.push(`the journal has no batch ${head.batch}`);
  else if (batch.hash !== head.plan_hash) problems.push(`the journal has another plan of the batch: ${batch.hash}`);
  const steps = new Map((await journal.steps(head.batch, 'decisions')).map((each) => [each.step, each]));
  for (const each of head.steps) {
    const found = steps.get(each.step);
    // Not the note: if a person was forgotten, it was removed since.
    const same = found !== undefined && jsonOf({ ...found, note: null }) === jsonOf({ ...each, note: null });
    if (!same) problems.push(`step ${each.step} is another one in the journal`);
  }
  const later = await journal.rowsAfter(head.batch, head.head?.step ?? 0);
  const intents = journal.intents(head.batch);
  const next = async (): Promise<Intent | undefined> => (await intents.next()).value;
  let intent = await next();
  let [differing, changed] = [0, 0];
  const differs = (problem: string): void => {
    differing += 1;
    if (differing <= maxListed) problems.push(problem);
  };
  return {
    compare: async (row: ReceiptRow): Promise<void> => {
      for (; intent !== undefined && intent.row < row.row; intent = await next()) {
        differs(`row ${intent.row} of the journal is not in it`);
      }
      if (intent?.row !== row.row) return differs(`row ${row.row} is not in the journal`);
      const difference = firstDifference(row, receiptRow(intent), 'the journal');
      if (difference !== null && later.has(row.row)) changed += 1;
      else if (difference !== null) differs(`row ${row.row}: ${difference}`);
      intent = await next();
    },
    end: async (): Promise<string[]> => {
      for (; intent !== undefined; intent = await next()) differs(`row ${intent.row} of the journal is not in it`);
      const more = differing - maxListed;
      return more > 0 ? [...problems, `and ${counted(more, 'more row')} that differ`] : problems;
    },
    changedSince: () => changed,
  };
}
