/** A generated list, page by page, and walks over it. */
import type { MirrorPage } from '../../src/mirror/page.ts';
import type { WalkPorts } from '../../src/mirror/walk.ts';
import type { RecordKey } from '../../src/model/records.ts';
import { timestampOf } from '../../src/model/time.ts';

export const start = Date.UTC(2026, 2, 11);
export const createdAt = (id: RecordKey) => timestampOf(Date.UTC(2026, 0, 1) + Number(id) * 1_000);
export const ids = (count: number, first = 1) => Array.from({ length: count }, (_, at) => first + at);

export interface List {
  /** The ids in the order of the list. */
  ids: RecordKey[];
  /** How many records the total counts too many. */
  more?: number;
  /** The records on a page, whatever is requested. */
  readonly perPage?: number;
  /** Called before each page is made. */
  readonly before?: (requests: number, list: List) => void;
  /** Returns the changes of a page from what the list has. */
  readonly change?: (page: MirrorPage, requests: number) => Partial<MirrorPage>;
  readonly ports?: Partial<WalkPorts>;
}

/** The list behind the ports of a walk, and the requests that it got. */
export function portsOver(list: List) {
  const [pages, sizes, shown]: number[][] = [[], [], []];
  const read = (requested: number) => (page: number) => {
    const pageSize = list.perPage ?? requested;
    pages?.push(page);
    list.before?.(pages?.length ?? 0, list);
    const on = list.ids.slice((page - 1) * pageSize, page * pageSize);
    const total = list.ids.length + (list.more ?? 0);
    const lastPage = Math.max(1, Math.ceil(total / pageSize));
    const none = { field: [], rows: [], hash: '', milliseconds: 0 };
    const made: MirrorPage = {
      page,
      perPage: pageSize,
      lastPage,
      total,
      ids: on,
      createdAt: on.map(createdAt),
      ...none,
    };
    return Promise.resolve({ ...made, ...list.change?.(made, pages?.length ?? 0) });
  };
  const portsOf = (pageSize: number): WalkPorts => {
    sizes?.push(pageSize);
    return {
      clock: { now: () => start },
      pageSize,
      expected: list.ids.length + (list.more ?? 0),
      surplus: 0,
      pastEnd: 0,
      isOrdered: true,
      read: read(pageSize),
      record: () => ({ unusable: 0, duplicateIds: [] }),
      noteSeen: (records) => shown?.push(records),
      ...list.ports,
    };
  };
  return { portsOf, pages: pages ?? [], sizes: sizes ?? [], shown: shown ?? [] };
}
