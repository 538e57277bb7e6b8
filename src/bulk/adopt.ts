/**
 * `bulk reconcile --adopt`: gives a journal that was lost or restored from a copy what it lacks, from the tokens on the server. After
 * that, batches can be sent from it again and nobody is paid twice. Section "Reconciling" of docs/architecture.md.
 */
import { Big } from 'big.js';
import type { AdoptedRow, Batch, Journal, NewBatch } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import { IncompleteError } from '../model/errors.ts';
import { parseInstant, timestampOf } from '../model/time.ts';
import { type BalanceParameters, resultOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import type { Finding } from './differences.ts';
import { checkStep } from './intent.ts';
import { acceptJournal, newestUnknownSend } from './journal-memory.ts';
import { keyOwner } from './live-users.ts';
import { type Money, moneyOf, moneyText } from '../model/money.ts';
import { newBatchId } from './plan.ts';
import { fingerprintOf, planHash, rowsDigest } from './plan-rows.ts';
import type { Reconciliation, ReconcilePorts } from './reconcile.ts';
import { recordLateApplied } from './late.ts';
import { underLock, updateBatchState } from './settle.ts';
import type { SendingPorts } from './sending.ts';

type AdoptPorts = Pick<ReconcilePorts, 'journal' | 'client' | 'clock' | 'signal'> & Pick<SendingPorts, 'memory'>;

export interface Adopted {
  /** The batch of the rows that the journal did not know; null if there were none. */
  readonly batch: string | null;
  readonly rows: number;
  /** How many rows that the journal knew are now recorded as made. */
  readonly recorded: number;
  /** What still differs. A row that was made more than once is adopted or recorded, but a person must take back the excess. */
  readonly left: readonly Finding[];
  /** Why the journal still does not count as the right one; empty if it does. */
  readonly problems: readonly string[];
}

/** Throws an IncompleteError if a request that this journal does not know may still be under way. */
export async function checkSettled(ports: AdoptPorts, settleAfterMs: number): Promise<void> {
  const sent = parseInstant(await newestUnknownSend(ports));
  if (sent === undefined || ports.clock.now() - sent >= settleAfterMs) return;
  throw new IncompleteError(
    `a request that this journal does not know was sent at ${timestampOf(sent).slice(0, 19)}, and its write may still be made late`,
    {
      advice: `Wait until ${timestampOf(sent + settleAfterMs).slice(0, 19)} (bulk.settle_after), then adopt.`,
    },
  );
}

/** Records the findings. If everything could be compared, the journal then counts as the right one. */
export async function adopt(ports: AdoptPorts, { findings, problems: unseen }: Reconciliation): Promise<Adopted> {
  const { journal } = ports;
  const unknown = findings.filter(({ kind }) => kind === 'unknown');
  const rows = unknown.flatMap((each) => readable(each) ?? []);
  /** What the findings are now that they are recorded; null for one that is no difference any more. */
  const now = new Map<Finding, Finding | null>();
  const batch = rows.length === 0 ? null : await adoptBatch(ports, rows, now);
  const recorded = await recordKnown(ports, findings, now);
  const illegible = unknown.length - rows.length;
  const marks = counted(illegible, 'mark stands at a change', 'marks stand at changes');
  const problems = illegible === 0 ? unseen : [...unseen, `${marks} whose amount or direction is not shown`];
  if (problems.length === 0) {
    for (const { batch: name, behind } of await journal.batches()) {
      if (behind !== null) await journal.setBehind(name, null);
    }
    const did = `${counted(rows.length, 'row')} adopted, ${recorded} recorded`;
    await acceptJournal(ports, `all users were looked at, ${did}`);
  }
  const left = findings.flatMap((each) => {
    const renewed = now.get(each);
    return renewed === null ? [] : (renewed ?? each);
  });
  return { batch, rows: rows.length, recorded, left, problems };
}

interface Readable {
  readonly found: Finding;
  readonly parameters: BalanceParameters;
}

/** Returns undefined if the server does not show the amount or direction. */
function readable(found: Finding): Readable | undefined {
  const { server_type: type, server_amount: amount } = found;
  if (type === null || amount === null) return undefined;
  return { found, parameters: { type, amount, description: null, expected_balance: null } };
}

/** Returns the batch. A row that was made more than once is still a difference, as a row of that batch. */
async function adoptBatch(
  { journal, client, clock, signal }: AdoptPorts,
  found: readonly Readable[],
  now: Map<Finding, Finding | null>,
): Promise<string> {
  const batch = newBatchId(clock);
  const sorted = found.toSorted(
    (a, b) => (a.found.at ?? '').localeCompare(b.found.at ?? '') || a.found.user_id - b.found.user_id,
  );
  const rows = sorted.map((each, at) => adoptedRow(each, at + 2, clock.now()));
  const intents = rows.map(({ intent }) => intent);
  const server = { address: client.address, keyMark: client.keyMark, owner: await keyOwner(client, signal) };
  const added: NewBatch = {
    batch,
    action: balance.name,
    title: foundTitle,
    file: null,
    fileBytes: null,
    fileHash: null,
    hash: planHash({ action: balance.name, title: foundTitle, fileHash: null, server, undoOf: null }, intents),
    rowsDigest: rowsDigest(intents),
    rows: rows.length,
    net: netOf(intents),
    columns: ['user_id', 'type', 'amount'],
    problems: [],
    warnings: ['adopted: these rows were found on the server, and were not sent from this journal'],
    server,
    undoOf: null,
    againReason: null,
  };
  await journal.adopt(added, rows);
  for (const [index, { found: each, parameters }] of sorted.entries()) {
    const row = index + 2;
    now.set(each, null);
    if (!isRepeated(each)) continue;
    const state = (await journal.intent(batch, row))?.state ?? null;
    const { type, amount } = parameters;
    now.set(each, { ...each, kind: 'repeated', batch, row, state, type, amount, note: adoptedNote(each) });
  }
  return batch;
}

const foundTitle = 'Found on the server';

const isRepeated = ({ times }: Finding): boolean => times > 1;

const adoptedNote = ({ note }: Finding): string => `adopted: ${note}`;

function adoptedRow({ found, parameters }: Readable, row: number, now: number): AdoptedRow {
  const { user_id: user, token, server_before: before, record_id: recordId, at, note } = found;
  const after = before === null ? null : moneyText(resultOf(parameters, before));
  const subject = `user:${user}`;
  // If the server's clock is ahead, the row must still not be from the future.
  const made = timestampOf(Math.min(now, parseInstant(at) ?? now));
  const repeated = isRepeated(found);
  return {
    state: repeated ? 'needs_human' : 'applied',
    intent: {
      row,
      state: 'planned',
      subject,
      user,
      key: null,
      token,
      fingerprint: fingerprintOf(balance, subject, parameters),
      plannedEmail: null,
      plannedUsername: null,
      parameters,
      cells: [String(user), parameters.type, parameters.amount],
      plannedBefore: before,
      plannedAfter: after,
      problem: null,
      notes: [],
      undoOfRow: null,
    },
    fields: {
      evidence: 'token',
      recordId,
      sentAt: made,
      // The time of adoption: whoever approved the same row before that did not know of this one.
      claimedAt: timestampOf(now),
      before,
      after,
      ...(repeated && { discrepancy: 'over_applied', problem: note }),
    },
  };
}

function netOf(intents: readonly AdoptedRow['intent'][]): Money {
  let net = new Big(0);
  for (const { parameters, plannedBefore: before } of intents) {
    const { type, amount } = parameters as BalanceParameters;
    // A `set` from an unknown balance changed the sum by an unknown amount, so it does not count.
    if (before !== null) net = net.plus(resultOf({ type, amount } as BalanceParameters, before)).minus(before);
    else if (type !== 'set') net = type === 'add' ? net.plus(amount) : net.minus(amount);
  }
  return moneyOf(moneyText(net)) ?? ('0.00' as Money);
}

/** Records the rows that the journal knows and that were made without it, or more than once. Returns how many it recorded as made. */
async function recordKnown(
  { journal, clock }: AdoptPorts,
  findings: readonly Finding[],
  now: Map<Finding, Finding | null>,
): Promise<number> {
  let recorded = 0;
  const made = findings.filter(({ kind, times, state }) => {
    if (kind === 'repeated') return state !== 'needs_human';
    return (kind === 'unrecorded' || kind === 'unsettled') && times === 1;
  });
  for (const [batch, rows] of Map.groupBy(made, (each) => each.batch)) {
    if (batch === null) continue;
    await underLock(journal, batch, async () => {
      const undoOf = (await journal.batch(batch))?.undoOf ?? null;
      await journal.takeUp(batch);
      for (const each of rows) {
        if (!(await recordRow(journal, { batch, undoOf }, each, clock.now()))) continue;
        const isAsked = each.kind === 'repeated';
        now.set(each, isAsked ? { ...each, state: 'needs_human' } : null);
        if (!isAsked) recorded += 1;
      }
      await updateBatchState(journal, batch);
    });
  }
  return recorded;
}

/** Returns false if the row cannot be recorded. */
async function recordRow(
  journal: Journal,
  { batch, undoOf }: Pick<Batch, 'batch' | 'undoOf'>,
  found: Finding,
  now: number,
): Promise<boolean> {
  const { kind, record_id: recordId, at, note } = found;
  const row = Number(found.row);
  let intent = await journal.intent(batch, row);
  if (intent === undefined) throw new Error(`row ${row} of batch ${batch} is gone`);
  if (intent.state === 'invalid') return false;
  if (intent.state === 'blocked') {
    await journal.move({ batch, row, from: 'blocked', to: 'planned' });
    intent = { ...intent, state: 'planned' };
  }
  const from = intent.state;
  const to = kind === 'repeated' ? 'needs_human' : 'applied';
  checkStep(from, to);
  const fields = {
    evidence: 'token',
    recordId,
    problem: to === 'applied' ? null : note,
    discrepancy: to === 'applied' ? null : 'over_applied',
    // The write happened although nobody approved it here. With claimedAt set, the repeat check finds it.
    ...(intent.claimedAt === null && {
      sentAt: timestampOf(Math.min(now, parseInstant(at) ?? now)),
      claimedAt: timestampOf(now),
    }),
  } as const;
  if (to === 'applied') return (await recordLateApplied(journal, undoOf, intent, fields, adoptedNote(found))) !== null;
  return journal.move({ batch, row, from, to, fields, note: adoptedNote(found) });
}
