/** One of several workers: connects the fleet with the settings and the mirror of this machine. */
import { existsSync } from 'node:fs';
import { type JournalMemory, rememberShared } from '../bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { withReleases } from '../model/releases.ts';
import { minuteMs, systemClock } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import { type FleetEvent, type Membership, type FleetPorts, type MirrorState, workInFleet } from '../worker/fleet.ts';
import { openFleetMembership } from '../worker/open-store.ts';
import { sleepFor } from '../worker/sleep.ts';

interface Member extends Pick<Surroundings, 'settings' | 'log' | 'signal'> {
  /** Its name among the workers. */
  readonly id: string;
  /** Called with the problem that keeps it from waiting or working; with undefined once that is over. */
  readonly onTrouble: (problem: string | undefined) => void;
}

/** How long a comparison with the published mirror is reused. The published mirror changes about once a night. */
const compareEveryMs = minuteMs;

/**
 * Waits for its turn and works, until the signal is aborted.
 * @param work runs while this is the mirror's only worker; it must call `prepare` before the first job
 */
export async function workAsMember(
  member: Member,
  work: (prepare: (signal: AbortSignal) => Promise<void>) => Promise<void>,
): Promise<void> {
  const { settings, id, log, signal } = member;
  const { mirror: file } = settings.store;
  let compared: { readonly at: number; readonly state: MirrorState } | undefined;

  async function mirror(isWorking: boolean): Promise<MirrorState> {
    // The active worker is ahead of what is published.
    if (isWorking || settings.publish.url === undefined) {
      compared = undefined;
      return existsSync(file) ? 'current' : 'absent';
    }
    if (compared !== undefined && performance.now() - compared.at < compareEveryMs) return compared.state;
    const state = await compareWithPublished();
    compared = { at: performance.now(), state };
    return state;
  }

  async function compareWithPublished(): Promise<MirrorState> {
    try {
      const publisher = await openPublisher(member, signal);
      const found = await publisher.compare();
      return found === 'current' ? 'current' : found === 'behind' || found === 'other' ? 'behind' : 'absent';
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      // A worker that knows more takes precedence. `prepare` reports what is wrong.
      return existsSync(file) ? 'behind' : 'absent';
    }
  }

  /** Restores the mirror as it was published last, so that nothing of it is read from the server again. */
  async function prepare(stop: AbortSignal): Promise<void> {
    if (settings.publish.url === undefined) return;
    const publisher = await openPublisher(member, stop);
    const found = await publisher.compare();
    if (found === 'current' || found === 'unpublished') return;
    const known = existsSync(file) ? await withMemory(file, (memory) => memory.recall()) : null;
    const { published_at: at } = await publisher.renew();
    await withMemory(file, (memory) => {
      const published = memory.recall();
      if (known === null || (published?.journal === known.journal && published.step > known.step)) return;
      memory.remember(known, published);
    });
    compared = undefined;
    log.info({ published_at: at, mirror: found }, `the mirror was restored from what was published at ${at}`);
  }

  const portsOf = (membership: Membership): FleetPorts => ({
    membership,
    clock: systemClock,
    mirror,
    remember: async (head, hasStep) => {
      if (!existsSync(file)) return;
      await withMemory(file, (memory) => rememberShared(memory, head, hasStep, membership.clock));
    },
    work: () => work(prepare),
    sleep: sleepFor,
    signal,
    emit: (event) => {
      if (event.kind !== 'clock') member.onTrouble(event.kind === 'trouble' ? event.error.message : undefined);
      logEvent(log, event);
    },
  });
  await withReleases(async (releases) => {
    await workInFleet(portsOf(await openFleetMembership(settings, id, systemClock, releases)));
  });
}

async function openPublisher({ settings, log }: Member, signal: AbortSignal) {
  const { openPublisher: open } = await import('../data/open-publish.ts');
  return open({ settings, clock: systemClock, signal, log }, () => {});
}

function withMemory<T>(file: string, work: (memory: JournalMemory) => T | Promise<T>): Promise<T> {
  return withReleases((releases) => work(releases.add(new MirrorsJournalMemory(file, systemClock))));
}

function logEvent(log: Log, event: FleetEvent): void {
  if (event.kind === 'waiting') return log.info({}, 'another worker is active; this one waits for its turn');
  if (event.kind === 'clock') {
    const { difference } = event;
    if (difference === null) return log.info({}, "this machine's clock agrees with that of the shared store");
    const advice = 'Correct it. Until then, jobs run by the clock of the shared store.';
    return log.warn({ advice }, `this machine's clock is ${difference} that of the shared store`);
  }
  const { message, advice } = event.error;
  if (event.kind === 'replaced') return log.warn({ advice }, `this worker is no longer active: ${message}`);
  return log.error({ advice }, message);
}
