/**
 * A receipt: what became of a batch, who did it and what proves it, in one signed document for whoever has to believe it
 * later. It is written, and checked, row by row, so that its size does not matter. Section "Receipts" of docs/architecture.md.
 */
import { createHash } from 'node:crypto';
import { Big } from 'big.js';
import type { Batch, Intent, Journal, RowChange } from '../journal/port.ts';
import { type DocumentForm, documentLines, inPieces, signedText } from '../journal/signed-document.ts';
import type { SigningKey } from '../journal/signing-key.ts';
import { moneyText } from '../model/money.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { type Counts, countNameOf, countNames } from './intent.ts';
import { dataBegins, dataEnds, inPage, pageBegins, pageHead, pageRow, pageRowsEnd, sealLine } from './receipt-page.ts';
import { factsOf, outcomeOf, recordOf, reportOf } from './report.ts';

export const receiptFormats = ['json', 'html'] as const;
export type ReceiptFormat = (typeof receiptFormats)[number];

/** The changes of balances in the rows of one outcome: those that were made, of the others those that were planned. */
interface OutcomeSum {
  readonly rows: number;
  readonly net: string;
  readonly gross: string;
}

type OutcomeSums = Readonly<Record<(typeof countNames)[number], OutcomeSum>>;

export const receiptKind = 'admin-mirror receipt 1';

export const receiptForm: DocumentForm = { kind: 'receipt', parts: 'rows' };

export type ReceiptHead = Readonly<Awaited<ReturnType<typeof headOf>>>;
export type ReceiptRow = ReturnType<typeof receiptRow>;

/** As far as it is still known of a person who was forgotten. */
export function receiptRow(intent: Intent) {
  const { row, user, state, parameters, before, after, evidence, token, discrepancy, problem } = intent;
  return {
    row,
    user,
    state,
    parameters,
    planned_before: intent.plannedBefore,
    planned_after: intent.plannedAfter,
    before,
    after,
    claimed_at: intent.claimedAt,
    sent_at: intent.sentAt,
    http_status: intent.httpStatus,
    evidence,
    record_id: intent.recordId,
    token,
    discrepancy,
    problem,
  };
}

/** Sums rows up by what became of them. */
export function outcomeSums(): { add(row: Omit<RowChange, 'subject'>): void; end(counts: Counts): OutcomeSums } {
  const zero = { net: new Big(0), gross: new Big(0) };
  const sums = new Map<(typeof countNames)[number], typeof zero>();
  return {
    add: (row) => {
      const change = row.state === 'invalid' ? null : outcomeOf(row);
      if (change === null) return;
      const name = countNameOf(row.state);
      const { net, gross } = sums.get(name) ?? zero;
      sums.set(name, { net: net.plus(change), gross: gross.plus(change.abs()) });
    },
    end: (counts) => {
      const all: Partial<Record<(typeof countNames)[number], OutcomeSum>> = {};
      for (const name of countNames) {
        const { net, gross } = sums.get(name) ?? zero;
        all[name] = { rows: counts[name], net: moneyText(net), gross: moneyText(gross) };
      }
      return all as OutcomeSums;
    },
  };
}

interface ReceiptOptions {
  readonly format: ReceiptFormat;
  readonly key: SigningKey;
  readonly clock: Clock;
  /** Called with what the receipt says of the whole batch before its first bytes come. */
  readonly onHead?: (head: ReceiptHead) => void;
}

/** The bytes of the receipt of the batch as it is at one moment. The journal does nothing else meanwhile. */
export function receiptOf(journal: Journal, { batch: name }: Pick<Batch, 'batch'>, options: ReceiptOptions) {
  return inPieces(
    journal.atOneMoment(async function* (frozen) {
      const batch = await frozen.batch(name);
      if (batch === undefined) throw new Error(`there is no batch ${name} any more`);
      const head = await headOf(frozen, batch, options);
      options.onHead?.(head);
      const rows = (): AsyncGenerator<ReceiptRow> => rowsOf(frozen, name);
      yield* options.format === 'json'
        ? documentLines(receiptForm, head, rows(), options.key)
        : pageTexts(head, rows, options.key);
    }),
  );
}

async function* rowsOf(journal: Journal, batch: string): AsyncGenerator<ReceiptRow> {
  for await (const intent of journal.intents(batch)) yield receiptRow(intent);
}

/** What a receipt says of the whole batch. The shape is part of the contract with scripts and with receipts of before. */
async function headOf(journal: Journal, batch: Batch, { key, clock }: ReceiptOptions) {
  const report = await reportOf(journal, batch);
  const { action, state, rows, counts, net, discrepancies, problems, warnings, approval } = report;
  const sums = outcomeSums();
  for await (const change of journal.changes(batch.batch)) sums.add(change);
  return {
    receipt: receiptKind,
    written_at: timestampOf(clock.now()),
    journal: journal.id,
    key_id: key.id,
    batch: batch.batch,
    action,
    plan_hash: batch.hash,
    again_reason: batch.againReason,
    state,
    /** Nothing is left to be sent, and no outcome is open. */
    settled: counts.planned + counts.blocked + counts.unknown === 0,
    rows,
    counts,
    net,
    outcomes: sums.end(counts),
    discrepancies,
    problems,
    warnings,
    approval,
    ...factsOf(batch),
    ...(await recordOf(journal, batch)),
    /** In their order: what was done with the whole batch, and what a person decided about a row. */
    steps: await journal.steps(batch.batch, 'decisions'),
  };
}

/** The document in a page, behind the same for people; the page has a signature of its own, over all that stands before it. */
async function* pageTexts(
  head: ReceiptHead,
  rows: () => AsyncIterable<ReceiptRow>,
  key: SigningKey,
): AsyncGenerator<string> {
  const digest = createHash('sha256');
  const hashed = (text: string): string => {
    digest.update(text);
    return text;
  };
  yield hashed(`${pageBegins}\n${pageHead(head)}`);
  for await (const row of rows()) yield hashed(pageRow(row));
  yield hashed(`${pageRowsEnd}\n${dataBegins}\n`);
  for await (const line of documentLines(receiptForm, head, rows(), key)) yield hashed(inPage(line));
  yield hashed(`${dataEnds}\n`);
  yield `${sealLine(key.sign(signedText('page', digest)))}\n`;
}
