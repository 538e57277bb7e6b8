/**
 * Whether a receipt is as it was signed, whether its rows sum up to what it says, and whether the journal, where it is at hand,
 * says the same. The file is read line by line, and nothing in it is believed. Section "Receipts" of docs/architecture.md.
 */
import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { z } from 'zod';
import { canonical, type Json } from '../journal/chain.ts';
import type { Intent, IntentState, Journal } from '../journal/port.ts';
import type { CheckingKey } from '../journal/signing-key.ts';
import { counted } from '../model/counted.ts';
import { explainFileError } from '../model/file-error.ts';
import { refuseUnfit } from '../model/read-file.ts';
import { countNames, countsOf, intentStates } from './intent.ts';
import { dataBegins, dataEnds, inPage, pageBegins, sealLine } from './receipt-page.ts';
import {
  headParts,
  jsonOf,
  outcomeSums,
  type ReceiptFormat,
  type ReceiptHead,
  receiptKind,
  receiptRow,
  type ReceiptRow,
  signatureLine,
  signedText,
} from './receipt.ts';

interface ReceiptCheck {
  readonly status: 'genuine' | 'refused';
  readonly format: ReceiptFormat;
  /** What it says of the batch, to be believed where it is genuine; null where that cannot be read. */
  readonly head: ReceiptHead | null;
  /** Why it is refused, the first difference first. */
  readonly problems: readonly string[];
  /** Null where it was not compared with the journal. */
  readonly journal: {
    /** Rows that something was done with since the receipt was written. */
    readonly changed_since: number;
  } | null;
  /** Why not, in words. */
  readonly not_compared: string | null;
}

/** Throws a FileError where the file cannot be read. @param journal to compare with, where the receipt is from it */
export async function checkReceipt(
  file: string,
  key: CheckingKey,
  journal: Journal | undefined,
  signal: AbortSignal,
): Promise<ReceiptCheck> {
  if (journal === undefined) return check(file, key, undefined, signal);
  const checks = journal.atOneMoment(async function* (frozen) {
    yield await check(file, key, frozen, signal);
  });
  for await (const each of checks) return each;
  throw new Error('a receipt was not checked');
}

async function check(
  file: string,
  key: CheckingKey,
  journal: Journal | undefined,
  signal: AbortSignal,
): Promise<ReceiptCheck> {
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
    const written = format === 'html' ? inPage : (text: string): string => text;
    const digest = createHash('sha256');
    const found = jsonIn(line, headParts, headShape, { written, digest });
    head = found as unknown as ReceiptHead;
    if (journal?.id === head.journal) comparison = await comparisonWith(journal, head);
    else reason ??= 'the journal here is another one';
    const tally = tallyOf();
    for (line = await lines.next(); !line.startsWith(']'); line = await lines.next()) {
      const end = line.endsWith(',') ? ',' : '';
      const row = jsonIn(line, ['', end], rowShape, { written, digest }) as unknown as ReceiptRow;
      tally.add(row);
      await comparison?.compare(row);
      // Only the last one has none.
      if (end === '' && !(line = await lines.next()).startsWith(']')) throw new NoReceipt('a row too many');
      if (end === '') break;
    }
    digest.update(']}');
    const signature = signatureIn(line, (value) => written(signatureLine(value)));
    const signed = [{ signature, text: signedText('receipt', digest), what: 'it says' }];
    if (format === 'html') {
      if ((await lines.next()) !== dataEnds) throw new NoReceipt('the data does not end here');
      const seal = signatureIn(await lines.next(), sealLine);
      signed.push({ signature: seal, text: signedText('page', lines.before), what: 'the page shows' });
    }
    await lines.end();
    if (head.key_id === key.id) {
      const wrong = signed.find((each) => !key.fits(each.text, each.signature));
      if (wrong !== undefined) problems.push(`the signature does not fit: something that ${wrong.what} was changed`);
    } else {
      problems.push(`it is signed with the key ${head.key_id}, and the public key here is ${key.id}`);
    }
    problems.push(...tally.differences(head), ...((await comparison?.end()) ?? []));
  } catch (error) {
    if (!(error instanceof NoReceipt)) throw explainFileError(error, 'read the receipt', file) ?? error;
    // Whatever else would be said of it follows from this.
    problems.push(`line ${lines.number}: ${error.message}`);
    [comparison, reason] = [null, 'it is none that could be'];
  } finally {
    await lines.close();
  }
  const status = problems.length === 0 ? 'genuine' : 'refused';
  const compared = comparison && { changed_since: comparison.changedSince() };
  return { status, format, head, problems, journal: compared, not_compared: reason };
}

/** What is not laid out as a receipt is. */
class NoReceipt extends Error {}

/** Far above any row, and any plan that is wrong from the first row to the last. */
const longestLine = 64 * 1024 * 1024;

/** The lines of a file of UTF-8, each of which ends with a line break. */
class LineReader {
  number = 0;
  /** Of all bytes before the line that was read last. */
  readonly before: Hash = createHash('sha256');
  readonly #lines: AsyncGenerator<Buffer>;
  #last: Buffer | undefined;

  constructor(file: string, signal: AbortSignal) {
    this.#lines = linesOf(file, signal);
  }

  async next(): Promise<string> {
    if (this.#last !== undefined) this.before.update(this.#last).update('\n');
    this.number += 1;
    const { value, done } = await this.#lines.next();
    if (done === true) throw new NoReceipt('the file ends too early');
    this.#last = value;
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(value);
    } catch {
      throw new NoReceipt('this is no UTF-8');
    }
  }

  async end(): Promise<void> {
    if ((await this.#lines.next()).done === true) return;
    this.number += 1;
    throw new NoReceipt('something stands behind the end');
  }

  async close(): Promise<void> {
    await this.#lines.return(undefined);
  }
}

async function* linesOf(file: string, signal: AbortSignal): AsyncGenerator<Buffer, undefined> {
  refuseUnfit(file);
  let parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of createReadStream(file, { signal }) as AsyncIterable<Buffer>) {
    let from = 0;
    for (let end = chunk.indexOf('\n'); end >= 0; end = chunk.indexOf('\n', from)) {
      yield Buffer.concat([...parts, chunk.subarray(from, end)]);
      from = end + 1;
      [parts, length] = [[], 0];
    }
    parts.push(chunk.subarray(from));
    length += chunk.length - from;
    if (length > longestLine) throw new NoReceipt('it is longer than any line of a receipt');
  }
  if (length > 0) throw new NoReceipt('the line break at its end is missing');
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

/** The JSON between two parts of a line. Throws where it is not of that shape, or not written as a receipt writes it. */
function jsonIn<T>(
  line: string,
  [before, after]: readonly [string, string],
  shape: z.ZodType<T>,
  { written, digest }: { readonly written: (text: string) => string; readonly digest: Hash },
): T {
  if (!line.startsWith(before) || !line.endsWith(after)) throw new NoReceipt('this is no line of a receipt');
  let value: Json;
  try {
    value = JSON.parse(line.slice(before.length, line.length - after.length)) as Json;
  } catch {
    throw new NoReceipt('this is no JSON');
  }
  const plain = `${before}${canonical(value)}${after}`;
  // Of two members with one name, or two ways to write a number, programs would see different things.
  if (written(plain) !== line) throw new NoReceipt('this is not written as a receipt writes it');
  digest.update(plain);
  const read = shape.safeParse(value);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  throw new NoReceipt(`${issue?.path.join('.') ?? 'it'} is not what stands in a receipt`);
}

function signatureIn(line: string, written: (signature: string) => string): string {
  const signature = /[0-9a-f]{128}/.exec(line)?.[0] ?? '';
  if (signature === '' || written(signature) !== line) throw new NoReceipt('this is no signature of a receipt');
  return signature;
}

/** Adds up the rows, to be compared with what the receipt says of them. */
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
      // Rows that are to go from the mirror are no rows of the batch.
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

/** Rows that differ which are named. */
const mostNamed = 20;

/** Compares what was written with the journal as it is now, row by row in their order. */
async function comparisonWith(journal: Journal, head: ReceiptHead) {
  const problems = (await journal.verifyChain(head.head?.hash)).problems.map((each) => `the journal: ${each}`);
  const batch = await journal.batch(head.batch);
  if (batch === undefined) problems.push(`the journal has no batch ${head.batch}`);
  else if (batch.hash !== head.plan_hash) problems.push(`the journal has another plan of the batch: ${batch.hash}`);
  const steps = new Map((await journal.steps(head.batch, 'decisions')).map((each) => [each.step, each]));
  for (const each of head.steps) {
    const found = steps.get(each.step);
    // Words about a person may have been taken out since.
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
    if (differing <= mostNamed) problems.push(problem);
  };
  return {
    compare: async (row: ReceiptRow): Promise<void> => {
      for (; intent !== undefined && intent.row < row.row; intent = await next()) {
        differs(`row ${intent.row} of the journal is not in it`);
      }
      if (intent?.row !== row.row) return differs(`row ${row.row} is not in the journal`);
      const difference = firstDifference(row, receiptRow(intent));
      if (difference !== null && later.has(row.row)) changed += 1;
      else if (difference !== null) differs(`row ${row.row}: ${difference}`);
      intent = await next();
    },
    end: async (): Promise<string[]> => {
      for (; intent !== undefined; intent = await next()) differs(`row ${intent.row} of the journal is not in it`);
      const more = differing - mostNamed;
      return more > 0 ? [...problems, `and ${counted(more, 'more row')} that differ`] : problems;
    },
    changedSince: () => changed,
  };
}

const longestValue = 80;

/** `state is "applied" in it and "rejected" in the journal`. */
function firstDifference(row: ReceiptRow, own: ReceiptRow): string | null {
  const short = (value: unknown): string => {
    const words = canonical((value ?? null) as Json);
    return words.length > longestValue ? `${words.slice(0, longestValue)}…` : words;
  };
  // A receipt of another version may have more members, or fewer.
  for (const name of Object.keys(own) as (keyof ReceiptRow)[]) {
    if (row[name] === undefined || jsonOf({ is: row[name] }) === jsonOf({ is: own[name] })) continue;
    return `${name} is ${short(row[name])} in it and ${short(own[name])} in the journal`;
  }
  return null;
}
