/** What of a plan deserves a look before it is approved, in short notes by row. Pure. */
import type { Big } from 'big.js';
import type { KnownUser } from './action.ts';
import { moneyText } from './decimal.ts';
import { shown } from './sheet/shown.ts';

/** Fields of users that notes are made of. */
export const notedFields = ['status', 'email_verified_at'] as const;

/** How many rows are called the largest, at most. */
const mostLargest = 5;
/** A change of more times the median is far from what the batch does otherwise. */
const farTimes = 10;

/** About whom the row is. A field that the server does not show says nothing. */
export function userNotes({ fields }: Pick<KnownUser, 'fields'>): string[] {
  const { status, email_verified_at: verified } = fields;
  const notes: string[] = [];
  // The reference has no list of states: every other one than this deserves a look, whatever it is called.
  if (typeof status === 'string' && status !== 'active') notes.push(`the status of the user is ${shown(status)}`);
  if (verified === null) notes.push('the email is not verified');
  return notes;
}

/** Which changes stand out among those of the batch, by row: the largest, and those far from the median. */
export function sizeNotes(changes: ReadonlyMap<number, Big>): ReadonlyMap<number, string[]> {
  const notes = new Map<number, string[]>();
  const sizes = [...changes].map(([row, change]) => ({ row, size: change.abs() })).filter(({ size }) => size.gt(0));
  sizes.sort((a, b) => b.size.cmp(a.size) || a.row - b.row);
  // Of two in the middle the smaller one: of two rows, one may be far from the other.
  const median = sizes[Math.floor(sizes.length / 2)]?.size;
  if (median === undefined) return notes;
  const far = median.times(farTimes);
  for (const [place, { row, size }] of sizes.entries()) {
    // Where all are alike, none is large.
    if (size.lte(median)) break;
    const own: string[] = [];
    if (place < mostLargest) own.push(place === 0 ? 'the largest change' : 'one of the largest changes');
    if (size.gt(far)) own.push(`more than ${farTimes} times the median of ${moneyText(median)}`);
    if (own.length === 0) break;
    notes.set(row, own);
  }
  return notes;
}
