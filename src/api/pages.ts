/** A walk over every page of a list, forward: for showing and saving, where a mirror's certainty is not needed. */
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Page } from './envelope.ts';
import { PageTooLarge } from './errors.ts';

interface Walk {
  readonly resource: ResourceName;
  readonly first: number;
  readonly pageSize: number;
  readonly log: Log;
}

/**
 * The pages from the first to the last that the server knows of by then. Each record comes once by its `id`; one without
 * an id comes as often as it is served. A page over the bound is asked for again as two of half the size.
 */
export async function* walkPages(
  ask: (page: number, pageSize: number) => Promise<Page>,
  { resource, first, pageSize, log }: Walk,
): AsyncGenerator<Page> {
  const seen = new Set<unknown>();
  let size = pageSize;
  let number = first;
  let total: number | undefined;
  let warned = false;
  for (;;) {
    let page: Page;
    try {
      page = await ask(number, size);
    } catch (error) {
      if (!(error instanceof PageTooLarge) || size <= 1) throw error;
      const before = (number - 1) * size;
      size = Math.floor(size / 2);
      number = Math.floor(before / size) + 1;
      log.info({ resource, pageSize: size }, 'a page was too large: asking for smaller ones');
      continue;
    }
    if (total !== undefined && page.total !== total && !warned) {
      warned = true;
      log.warn({ resource, before: total, now: page.total }, 'the number of records changed: some may be missing');
    }
    total = page.total;
    // Whatever was asked for, offsets count in what the server gives.
    size = page.perPage;
    yield { ...page, records: page.records.filter((record) => isNew(record['id'], seen)) };
    if (number >= page.lastPage || page.records.length === 0) return;
    number += 1;
  }
}

function isNew(id: unknown, seen: Set<unknown>): boolean {
  if (id === undefined || id === null) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return true;
}
