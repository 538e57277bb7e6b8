/**
 * The search for records that the server no longer has, in a list too long to be read for a few of them (pure). The rank
 * that the first record of a page has in the mirror, less its place on the server, is how many were deleted before it: a
 * stretch in which that does not grow has lost none, and any other is halved. Section "Deletions" of
 * docs/architecture.md.
 */
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/counted.ts';
import type { RankedRows } from '../store/mirror-types.ts';
import { LocalOrder, type RankRange } from './local-order.ts';

/** What was asked of the server's list, and has not changed since. */
interface ServerList {
  readonly total: number;
  readonly pageSize: number;
}

export type Findings =
  /** Every id of the mirror that cannot be on the server if it lists the others in the order of the mirror. */
  | { readonly kind: 'missing'; readonly ids: readonly number[] }
  /** The server shows what the mirror does not know, or lists it in another order: only reading everything can tell. */
  | { readonly kind: 'contradiction'; readonly problem: string };

/** Gives the pages to ask for next, takes the ids on each of them in their order, and ends with what was found. */
type RankSearch = Generator<readonly number[], Findings, readonly (readonly RecordKey[])[]>;

/** Pages not asked for yet, both ends among them, and the ranks that must hold their records. */
interface Gap extends RankRange {
  readonly firstPage: number;
  readonly lastPage: number;
}

/** What a page makes of the gap in which it lies. */
interface Cut {
  readonly gaps: readonly Gap[];
  readonly missing: readonly number[];
}

/**
 * Searches the rows for those that the server's list lacks. The rows may go beyond the list at either end, as they do
 * where it is not known which moment it ends with: those are found to be missing like others.
 *
 * The first and the last page are requested before any other, so that the ends are known and a record added there shows.
 */
export function* searchMissing(rows: RankedRows, list: ServerList): RankSearch {
  const order = new LocalOrder(rows);
  const lastPage = Math.ceil(list.total / list.pageSize);
  const missing: number[] = [];
  let gaps: Gap[] = [{ firstPage: 1, lastPage, from: 0, to: order.size }];
  let pages = [...new Set([1, lastPage])].filter((page) => page > 0 && page <= lastPage);
  for (;;) {
    const answers = pages.length === 0 ? [] : yield pages;
    for (const [index, page] of pages.entries()) {
      const at = gaps.findIndex((gap) => gap.firstPage <= page && page <= gap.lastPage);
      const gap = gaps[at];
      if (gap === undefined) throw new Error(`page ${page} is in no gap`);
      const cut = cutGap(order, list, gap, page, answers[index] ?? []);
      if (typeof cut === 'string') return { kind: 'contradiction', problem: cut };
      missing.push(...cut.missing);
      gaps.splice(at, 1, ...cut.gaps);
    }
    const open: Gap[] = [];
    for (const gap of gaps) {
      const lost = gap.to - gap.from - servedIn(gap, list);
      if (lost < 0) return { kind: 'contradiction', problem: 'the server has more records than the mirror in between' };
      if (gap.firstPage > gap.lastPage) missing.push(...idsIn(order, gap));
      else if (lost > 0) open.push(gap);
    }
    if (open.length === 0) return { kind: 'missing', ids: missing };
    gaps = open;
    pages = gaps.map((gap) => Math.floor((gap.firstPage + gap.lastPage) / 2));
  }
}

/** Records of the server on the pages of the gap. */
function servedIn({ firstPage, lastPage }: Gap, { total, pageSize }: ServerList): number {
  return Math.max(0, Math.min(total, lastPage * pageSize) - (firstPage - 1) * pageSize);
}

function idsIn(order: LocalOrder, { from, to }: RankRange): number[] {
  return Array.from({ length: to - from }, (_, index) => order.idAt(from + index));
}

/** Cuts the gap in two by a page of it; text where the page contradicts what the mirror knows. */
function cutGap(order: LocalOrder, list: ServerList, gap: Gap, page: number, ids: readonly RecordKey[]): Cut | string {
  const expected = servedIn({ ...gap, firstPage: page, lastPage: page }, list);
  const shown = new Set(ids);
  if (ids.length !== expected || shown.size !== expected)
    return `page ${page} shows ${counted(shown.size, 'record')}, not ${expected}`;
  const place = placeOf(order, gap, ids, shown);
  if (typeof place === 'string') return `page ${page}: ${place}`;
  return {
    gaps: [
      { firstPage: gap.firstPage, lastPage: page - 1, from: gap.from, to: place.from },
      { firstPage: page + 1, lastPage: gap.lastPage, from: place.to, to: gap.to },
    ],
    missing: idsIn(order, place).filter((id) => !shown.has(id)),
  };
}

/**
 * The ranks that a page takes up. Servers break ties by rules of their own, so records of the moment with which the page
 * begins or ends, and which it does not show, are taken to be on the pages beside it.
 */
function placeOf(
  order: LocalOrder,
  gap: Gap,
  ids: readonly RecordKey[],
  shown: ReadonlySet<RecordKey>,
): RankRange | string {
  const ranks: number[] = [];
  for (const id of ids) {
    const rank = order.rankOf(id);
    if (rank === undefined) return `the mirror does not know the record ${id}`;
    const before = ranks.at(-1);
    const ordered = before === undefined || order.momentAt(before) <= order.momentAt(rank);
    if (!ordered || rank < gap.from || rank >= gap.to) return `the record ${id} is not where the mirror has it`;
    ranks.push(rank);
  }
  const first = ranks[0] ?? gap.from;
  const last = ranks.at(-1) ?? gap.from;
  if (order.momentAt(first) !== order.momentAt(last)) {
    const { from } = order.gather(order.tiesOf(first, gap), shown, 'last');
    const { to } = order.gather(order.tiesOf(last, gap), shown, 'first');
    return { from, to };
  }
  // A page of one moment has no neighbours to tell it from: there the order must be the mirror's own.
  const rising = ranks.every((rank, index) => index === 0 || (ranks[index - 1] ?? rank) < rank);
  return rising ? { from: first, to: last + 1 } : `records of one moment are not in the order of the mirror`;
}

/** About how many pages the search asks for: the first, the last, and a halving for each record that is missing. */
export function expectedProbes(missing: number, pages: number): number {
  return 2 + missing * Math.log2(Math.max(2, pages / missing));
}
