/**
 * Emails that wait to be sent: they are the ones that change, and the API has a filter for them. What still waits is
 * read by it; what no longer does has been sent or deleted since, and its window is read. Section "What a run does" of
 * docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import { owns } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import type { Step } from './plan.ts';
import type { Source } from './source.ts';

interface UnsentPorts {
  readonly run: string;
  readonly source: Pick<Source, 'page'>;
  readonly store: Pick<MirrorStore, 'unsentEmails' | 'forgetPages' | 'recordPage' | 'keptOut'>;
  readonly signal: AbortSignal;
}

/** Windows, of those not read by this run, with emails that no longer wait; none where the filter does not work. */
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
    const rowsOf = settled.map((window) => owns.bind(null, window));
    const wanted = { rowsOf, field: 'is_sent', keptOut: store.keptOut('emails') };
    const page = await source.page('emails', request, capabilities, signal, wanted);
    if (page.field.some((isSent) => Number(isSent) !== 0)) return [];
    // A total may count what no page shows.
    last = page.ids.length === 0 ? number : page.lastPage;
    for (const part of page.parts ?? [page]) {
      for (const [at, window] of settled.entries()) {
        const rows = part.rows[at];
        const received = part.createdAt.filter((createdAt) => owns(window, createdAt)).length;
        if (rows === undefined || received === 0) continue;
        // Its rows are no longer only those of its last walk.
        store.forgetPages(window);
        store.recordPage(run, window, rows, received);
      }
    }
    for (const id of page.ids) if (id !== null) waiting.delete(id);
  }
  return [...waiting.values()];
}
