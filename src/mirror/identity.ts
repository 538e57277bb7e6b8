/**
 * Whether the server is still the one that the mirror was read from (pure). The mirror itself is what it is recognised
 * by: its newest records must still be there. Section "The same server" of docs/architecture.md.
 */
import type { Owner } from './server-contact.ts';

/** What is kept of the server; no credential, and nothing that tells of a person but an id. */
export interface KnownServer {
  readonly address: string;
  readonly key_mark: string;
  /** Null where the server did not tell whose key it is. */
  readonly owner: Pick<Owner, 'id' | 'marks'> | null;
}

/** What became of the records that the mirror knows. */
export type Remains =
  /** One of the newest is there, as it was created. */
  | 'kept'
  /** None of the newest is there, while the oldest is: the state of an earlier day. */
  | 'restored'
  /** None of the newest is there, nor is the oldest. */
  | 'gone'
  /** The mirror knows too little, or the server does not let itself be asked. */
  | 'unclear';

interface Evidence {
  /** Null at the first contact. */
  readonly known: KnownServer | null;
  readonly address: string;
  /** Null where it is not known, or was not asked because nothing looks odd. */
  readonly owner: Owner | null;
  readonly remains: Remains;
}

/**
 * Why this may be another server than the mirror's, in words that follow "the server …"; empty where it is the same.
 * Another address is no reason by itself where the records and the owner of the key are the same, nor is another key of
 * the same user, nor a record that was deleted.
 */
export function objections({ known, address, owner, remains }: Evidence): string[] {
  const reasons: string[] = [];
  if (known?.owner && owner !== null && !isSameOwner(known.owner, owner)) {
    const name = owner.name === null ? '' : ` (${owner.name})`;
    reasons.push(`says that the key belongs to user ${owner.id}${name}, and it belonged to user ${known.owner.id}`);
  }
  if (remains === 'restored') reasons.push('has lost the newest records that the mirror knows, as after an old backup');
  if (remains === 'gone') reasons.push('has other records than those that the mirror knows');
  if (known !== null && known.address !== address && remains === 'unclear') {
    reasons.push(`stood at ${known.address} before, and nothing shows that it is the same`);
  }
  return reasons;
}

/** A user who was given another name, or another address, is the same one; one that shares no more than the id is not. */
export function isSameOwner(known: Pick<Owner, 'id' | 'marks'>, now: Pick<Owner, 'id' | 'marks'>): boolean {
  if (known.id !== now.id) return false;
  const shared = Object.keys(known.marks).filter((field) => now.marks[field] !== undefined);
  return shared.length === 0 || shared.some((field) => known.marks[field] === now.marks[field]);
}

/** Places among the newest records of all resources that are requested, one after the other, until one is found. */
const probed = [1, 2, 4, 8];
/** So many of the newest may all have been deleted; where there are fewer, nobody could tell that from a restored backup. */
export const knownRecordCount = 8;

/** The newest known records of all, those that are to be asked for, in order. */
export function probesOf<L extends { readonly createdAt: string }>(knownRecords: readonly L[]): L[] {
  const newest = [...knownRecords].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  return probed.flatMap((place) => newest[place - 1] ?? []);
}

/** A known record on the server: as it was, a record of the same id created at another time, none, or not to be asked for. */
export type Sight = 'same' | 'other' | 'absent' | 'unknown';

/**
 * What the known records show.
 * @param newest what was seen of those asked for
 * @param count how many there are
 * @param oldest what was seen of the oldest record
 */
export function remainsFrom(newest: readonly Sight[], count: number, oldest: Sight): Remains {
  if (newest.includes('same')) return 'kept';
  if (count >= knownRecordCount) return oldest === 'same' ? 'restored' : 'gone';
  return newest.includes('other') ? 'gone' : 'unclear';
}
