/**
 * Emails that wait to be sent: they are the ones that change, and the API has a filter for them. What still waits is
 * read by it; what no longer does has been sent or deleted since, and its window is read. Section "What a run does" of
 * docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import { owns } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import { recordKey } from '../model/records.ts';
import type { MirrorStore, Window } from '../store/mirror-types.ts';
import type { Step } from './plan.ts';
import type { Source } from './source.ts';

export interface UnsentPorts {
  readonly run: string;
  readonly source: Pick<Source, 'page'>;
  readonly store: Pick<MirrorStore, 'unsentEmails' | 'forgetPages' | 'recordPage'>;
  readonly signal: AbortSignal;
}

/**
 * Reads the waiting emails and gives the windows, of those that this run would not read, that hold some which no longer
 * wait. None where the server does not take the filter, or does not keep to it: those windows then wait for their turn.
 */
export async function unsentSteps(
  ports: UnsentPorts,
  capabilities: Capabilities,
  unread: readonly Window[],
): Promise<Step[]> {
  const settled = unread.filter(({ state }) => state === 'settled');
  if (settled.length === 0) return [];
  try {
    const gone = await readWaiting(ports, capabilities, settled);
    return settled
      .filter((window) => gone.some((createdAt) => owns(window, createdAt)))
      .map((window) => ({ window, reason: 'holds emails that no longer wait' }));
  } catch (error) {
    ports.signal.throwIfAborted();
    if (error instanceof OperatorError) return [];
    throw error;
  }
}

/** Keeps what still waits; gives the creation times of the rows that wait here and no longer there. */
async function readWaiting(
  { run, source, store, signal }: UnsentPorts,
  capabilities: Capabilities,
  settled: readonly Window[],
): Promise<unknown[]> {
  const waiting = new Map(store.unsentEmails().map(({ id, createdAt }) => [id, createdAt]));
  const paginate = capabilities.pageSize;
  for (let number = 1, last = 1; number <= last; number += 1) {
    const request = { page: number, paginate, range: null, unsent: true };
    const page = await source.page('emails', request, capabilities, signal);
    if (page.records.some((record) => Number(record['is_sent']) !== 0)) return [];
    // A total may count what no page shows.
    last = page.records.length === 0 ? number : page.lastPage;
    for (const window of settled) {
      const owned = page.records.filter((record) => owns(window, record['created_at']));
      if (owned.length === 0) continue;
      // Its rows are no longer only those of its last walk.
      store.forgetPages(window);
      store.recordPage(run, window, owned, owned.length);
    }
    for (const record of page.records) {
      const id = recordKey(record);
      if (id !== undefined) waiting.delete(id);
    }
  }
  return [...waiting.values()];
}
