/** The audit as people read it: one line for what somebody did, such as sending a batch, with the steps that it took. */
import { amountWords } from '../model/money.ts';
import type { OperationName } from '../model/operations.ts';
import { counted } from '../model/text.ts';
import type { AuditEntry } from './audit.ts';

export interface Act {
  readonly words: string;
  /** In their order. */
  readonly steps: Steps;
}

type Steps = readonly [AuditEntry, ...AuditEntry[]];

/** Steps about a whole batch with which sending it begins, and with which it ends. */
const begins: ReadonlySet<string> = new Set(['consented', 'again', 'claimed']);
const ends: ReadonlySet<string> = new Set(['stopped', 'done', 'discarded']);

/**
 * Reads the newest steps and joins them to acts, in their order.
 * @param entries the newest first
 * @param most how many to read
 * @param currency what amounts are in, if that is set
 */
export async function newestActs(
  entries: AsyncIterable<AuditEntry>,
  most: number,
  currency: string | undefined,
): Promise<{ readonly acts: readonly Act[]; readonly isMore: boolean }> {
  const read: AuditEntry[] = [];
  for await (const each of entries) {
    if (read.length === most) return { acts: actsOf(read.reverse(), currency), isMore: true };
    read.push(each);
  }
  return { acts: actsOf(read.reverse(), currency), isMore: false };
}

/** @param entries in the order of the steps */
function actsOf(entries: Iterable<AuditEntry>, currency: string | undefined): Act[] {
  const acts: [AuditEntry, ...AuditEntry[]][] = [];
  /** The acts that may go on, by person and batch, or by person and user for a write by hand. */
  const open = new Map<string, AuditEntry[]>();
  for (const entry of entries) {
    const { kind, batch, row, actor, user } = entry;
    const key = JSON.stringify([actor, batch ?? user]);
    const isPart = batch === null ? kind.startsWith('write') : row !== null || begins.has(kind) || ends.has(kind);
    const current = isPart ? open.get(key) : undefined;
    if (current === undefined) {
      const act: [AuditEntry, ...AuditEntry[]] = [entry];
      acts.push(act);
      if (isPart) open.set(key, act);
    } else current.push(entry);
    if (ends.has(kind) || kind === 'write_ended') open.delete(key);
  }
  return acts.map((steps) => ({ words: wordsOf(steps, currency), steps }));
}

/** What a write by hand does, to follow a person's name. */
const writes: Partial<Readonly<Record<OperationName, string>>> = {
  'users.create': 'created a user',
  'users.update': 'changed',
  'users.delete': 'deleted',
  'users.update-balance': 'changed the balance of',
  'users.send-email': 'emailed',
  'users.send-notification': 'notified',
};

function wordsOf(steps: Steps, currency: string | undefined): string {
  const [{ kind, batch, title, action, user, note, type, amount, state }] = steps;
  if (batch !== null) return batchWords(steps, title ?? batch);
  const what = amount === null ? '' : `: ${type ?? ''} ${amountWords(amount, currency)}`;
  const about = user === null ? '' : ` of user ${user}`;
  if (kind.startsWith('write')) {
    const did = writes[action as OperationName] ?? action ?? 'wrote';
    return `${did}${user === null ? '' : ` user ${user}`} by hand${what}, ${state ?? 'not ended'}`;
  }
  if (kind === 'viewed') return `looked at ${action ?? 'data'}${about}`;
  return `${kind.replaceAll(/[_-]/g, ' ')}${about}${note === null ? '' : `: ${note}`}`;
}

function batchWords(steps: Steps, title: string): string {
  // The rows that are left come before the discarding itself.
  const { kind, row, note } = steps.find((each) => each.kind === 'discarded') ?? steps[0];
  const said = note === null || row !== null ? '' : `: ${note}`;
  if (kind === 'discarded') return `discarded ${title}${said}`;
  const rows = new Map(steps.flatMap((each) => (each.row === null ? [] : [[each.row, each]])));
  const sent = new Set(steps.flatMap((each) => (each.kind === 'sending' ? [each.row] : [])));
  if (rows.size === 0) return begins.has(kind) ? `began to send ${title}` : `${verbs[kind] ?? kind} ${title}${said}`;
  const outcomes = Map.groupBy(rows.values(), (each) => each.kind);
  const how = Array.from(outcomes, ([name, of]) => `${of.length} ${name.replace('_', ' ')}`).join(', ');
  const [first] = rows.values();
  if (sent.size === 0 && first?.evidence === 'person') return `said of row ${first.row} of ${title}: ${how}`;
  if (sent.size === 0) return `looked at ${counted(rows.size, 'row')} of ${title}: ${how}`;
  const isWhole = outcomes.size === 1 && outcomes.has('applied') && rows.size === sent.size;
  return `sent ${counted(sent.size, 'row')} of ${title}${isWhole ? '' : `: ${how}`}`;
}

const verbs: Readonly<Record<string, string>> = {
  added: 'planned',
  adopted: 'recorded from the server:',
  submitted: 'asked for approval of',
  stopped: 'stopped',
  done: 'ended',
};
