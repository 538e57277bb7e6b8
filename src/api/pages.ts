/** A walk over every page of a list, forward: for showing and saving, where a mirror's certainty is not needed. */
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Page, Unreadable } from './envelope.ts';
import { afterPart, IncompleteError } from '../model/errors.ts';
import { type RequestPage, Reach, readingRecords, readPage, wordsOf } from './narrow.ts';

interface Walk {
  readonly resource: ResourceName;
  readonly first: number;
  readonly pageSize: number;
  readonly log: Log;
}

/**
 * The pages from the first to the last that the server knows of by then. Each record comes once by its `id`; one without
 * an id comes as often as it is served. What the server cannot make a page of is read as smaller ones; where records are
 * left that no page shows, it throws an IncompleteError after all others; and where the server is lost after the first
 * page, with what came by then.
 */
export async function* walkPages(
  requestOne: RequestPage,
  { resource, first, pageSize, log }: Walk,
): AsyncGenerator<Page> {
  const seen = new Set<unknown>();
  const reading = readingRecords(requestOne);
  let size = pageSize;
  let number = first;
  let total: number | undefined;
  let warned = false;
  const reach = new Reach();
  const unreadable: Unreadable[] = [];
  for (;;) {
    const page = await readPage(reading, number, size, reach).catch((error: unknown) => {
      throw number === first ? error : afterPart(error);
    });
    unreadable.push(...(page.unreadable ?? []));
    if (total !== undefined && page.total !== total && !warned) {
      warned = true;
      log.warn({ resource, before: total, now: page.total }, 'the number of records changed: some may be missing');
    }
    total = page.total;
    // Whatever was requested, offsets count in what the server gives.
    size = page.perPage;
    yield { ...page, records: page.records.filter((record) => isNew(record['id'], seen)) };
    if (number >= page.lastPage || (page.records.length === 0 && page.unreadable === undefined)) break;
    number += 1;
  }
  if (unreadable.length === 0) return;
  throw new IncompleteError(wordsOf(unreadable), { advice: `All other ${resource} were given.` });
}

function isNew(id: unknown, seen: Set<unknown>): boolean {
  if (id === undefined || id === null) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return true;
}
