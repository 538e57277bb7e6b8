/** Emails that wait to be sent: they are the ones that change, and a filter of the API lists them. */
import { owns } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { Window } from '../store/mirror-types.ts';
import type { Profile } from './profile.ts';
import type { VisitPorts } from './sync-window.ts';

type UnsentPorts = Pick<VisitPorts, 'run' | 'source' | 'store' | 'signal'>;

/**
 * Returns windows with emails that no longer wait to be sent, which this run would not read; none if the filter does not work.
 */
export async function unsentWindows(
  ports: UnsentPorts,
  profile: Profile,
  planned: readonly Window[],
): Promise<Window[]> {
  const settled = ports.store
    .windows('emails')
    .filter(({ from, state }) => state === 'settled' && !planned.some((window) => window.from === from));
  if (settled.length === 0) return [];
  try {
    const gone = await readUnsent(ports, profile, settled);
    return settled.filter((window) => gone.some((createdAt) => owns(window, createdAt)));
  } catch (error) {
    ports.signal.throwIfAborted();
    if (error instanceof OperatorError) return [];
    throw error;
  }
}

/** Stores the emails that still wait. Returns the creation times of rows that wait in the mirror and no longer on the server. */
async function readUnsent(
  { run, source, store, signal }: UnsentPorts,
  profile: Profile,
  settled: readonly Window[],
): Promise<unknown[]> {
  const waiting = new Map(store.unsentEmails().map(({ id, createdAt }) => [id, createdAt]));
  const paginate = profile.pageSize;
  for (let number = 1, last = 1; number <= last; number += 1) {
    const request = { page: number, paginate, range: null, unsent: true };
    const rowsOf = settled.map((window) => owns.bind(null, window));
    const wanted = { rowsOf, field: 'is_sent', keptOut: store.keptOut('emails') };
    const page = await source.page('emails', request, profile, signal, wanted);
    if (page.field.some((isSent) => Number(isSent) !== 0)) return [];
    // The total may count emails that no page shows.
    last = page.ids.length === 0 ? number : page.lastPage;
    for (const part of page.parts ?? [page]) {
      for (const [at, window] of settled.entries()) {
        const rows = part.rows[at];
        const received = part.createdAt.filter((createdAt) => owns(window, createdAt)).length;
        if (rows === undefined || received === 0) continue;
        // The window's rows are no longer only those of its last walk.
        store.forgetPages(window);
        store.recordPages(run, window, [{ rows, received }]);
      }
    }
    for (const id of page.ids) if (id !== null) waiting.delete(id);
  }
  return [...waiting.values()];
}
