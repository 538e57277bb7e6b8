/** A worker of several machines, with the mirror of its own: it restores that before it works (docs/worker.md, "Several machines"). */
import { existsSync } from 'node:fs';
import { type JournalMemory, rememberShared } from '../bulk/journal-memory.ts';
import { withReleases } from '../model/releases.ts';
import { systemClock, sleepFor } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { takeTurns, type TurnPorts } from './fleet.ts';
import { openFleetMembership } from './open-store.ts';

interface Member extends Pick<Surroundings, 'settings' | 'log' | 'signal'>, Pick<TurnPorts, 'onTrouble'> {
  /** Its name among the workers. */
  readonly id: string;
}

/**
 * Waits for its turn and works, until the signal is aborted.
 * @param work runs while this is the mirror's only worker; it must call `prepare` before the first job
 */
export async function workInFleet(
  member: Member,
  work: (prepare: (signal: AbortSignal) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { settings, id, log } = member;
  const { mirror: file } = settings.store;

  /** Restores the mirror as it was published last, so that nothing of it is read from the server again. */
  async function prepare(signal: AbortSignal): Promise<void> {
    if (settings.publish.url === undefined) return;
    const { openPublisher } = await import('../data/open-publish.ts');
    const publisher = openPublisher({ settings, clock: systemClock, signal, log }, () => {});
    const found = await publisher.compare();
    if (found === 'current' || found === 'unpublished') return;
    const known = existsSync(file) ? await withMemory(file, (memory) => memory.recall()) : null;
    const { published_at: at } = await publisher.renew();
    await withMemory(file, (memory) => {
      const published = memory.recall();
      if (known === null || (published?.journal === known.journal && published.step > known.step)) return;
      memory.remember(known, published);
    });
    log.info({ published_at: at, mirror: found }, `the mirror was restored from what was published at ${at}`);
  }

  await withReleases(async (releases) => {
    const membership = await openFleetMembership(settings, id, systemClock, releases);
    const { clock } = membership;
    await takeTurns({
      ...member,
      membership,
      remember: async (head) => {
        if (!existsSync(file)) return;
        await withMemory(file, (memory) => rememberShared(memory, head, (step) => membership.hasStep(step), clock));
      },
      work: () => work(prepare),
      sleep: sleepFor,
    });
  });
}

function withMemory<T>(file: string, work: (memory: JournalMemory) => T | Promise<T>): Promise<T> {
  return withReleases((releases) => work(releases.add(new MirrorsJournalMemory(file, systemClock))));
}
