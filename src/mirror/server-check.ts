/** Whether the server still is the one that the mirror was read from, and whose clock to trust. Section "The same server" of docs/architecture.md. */
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { shortLine } from '../model/text.ts';
import { isSameTime, minuteMs, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { jsonText } from './cell.ts';
import type { StoredKnownRecord } from '../store/mirror-types.ts';
import { forgetProfile, forgetReading, storedProfile } from './profile.ts';
import type { Source } from './source.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** The run is refused: it would turn the mirror into one of another server, or of an older state of this one. */
export class OtherServerError extends UsageError {
  override readonly name = 'OtherServerError';
}

interface ObjectionPorts {
  readonly source: Pick<Source, 'look' | 'total'>;
  readonly store: Pick<MirrorStore, 'capability' | 'knownRecords'>;
  readonly signal: AbortSignal;
}

interface ServerCheckPorts extends ObjectionPorts {
  readonly source: Pick<Source, 'address' | 'look' | 'total'>;
  readonly store: Pick<
    MirrorStore,
    | 'capability'
    | 'forgetCapability'
    | 'server'
    | 'recordServer'
    | 'windows'
    | 'resetWindows'
    | 'knownRecords'
    | 'recordEvent'
  >;
  readonly run: string;
  readonly signal: AbortSignal;
}

/**
 * Checks the server and records its address. Throws an OtherServerError if it may be another one, or an older state of the same,
 * unless that is `accepted`: then nothing that was read before counts. Throws as well if the server cannot be reached.
 */
export async function checkServer(ports: ServerCheckPorts, accepted: boolean): Promise<void> {
  const { source, store, run } = ports;
  const { address } = source;
  const known = store.server();
  const isMoved = known !== null && known !== address;
  const noteEvent = (kind: string, detail: string): void =>
    store.recordEvent(run, { resource: null, kind, subject: address, detail });
  const objection = await objectionTo(ports, isMoved ? known : null);
  if (objection !== null) {
    if (!accepted) throw refusal(address, objection);
    noteEvent('server_accepted', objection);
    // All that was read and measured came from another server. The rows stay until a walk misses them.
    for (const resource of resourceNames) {
      forgetReading(store, resource);
      forgetProfile(store, resource);
    }
  } else if (isMoved) {
    noteEvent('server_moved', `it stood at ${known}, and has the same records`);
  }
  if (known !== address) store.recordServer(address);
}

/** A mirror with fewer records cannot tell another server from deletions. */
const knownRecordCount = 8;

/**
 * Returns why this may be another server than the mirror's, in words that follow "the server …"; null if it is the same.
 * @param before its address until now, if it has another one
 */
export async function objectionTo(ports: ObjectionPorts, before: string | null): Promise<string | null> {
  const newest = resourceNames.flatMap((resource) =>
    ports.store.knownRecords(resource, 'newest', knownRecordCount).map((each) => ({ ...each, resource })),
  );
  // An empty mirror has nothing to lose, whatever server it meets.
  if (newest.length === 0) return null;
  // At a new address, each resource must speak for itself: servers may begin with the same records in one of them.
  const { remains, redated } = before === null ? await remainsOf(ports, newest) : await remainsOfEach(ports, newest);
  if (remains === 'gone') {
    // A server that shows nothing at all may be down for a while. It counts as the same, and removes no row.
    if (before === null && (await showsNothing(ports))) return null;
    const example = redated === undefined ? '' : `, or writes their times in another way (${redated})`;
    return `has none of the newest records that the mirror knows, as another server or an old backup${example}`;
  }
  if (remains === 'kept' || before === null) return null;
  return `stood at ${before} before, and nothing shows that it is the same`;
}

type KnownRecord = StoredKnownRecord & { readonly resource: ResourceName };

/** Which of the newest records of all resources are requested, one after another, until one is found. */
const probePlaces = [1, 2, 4, 8];

/** Returns the known records to request, in order. */
export function probesOf<L extends { readonly createdAt: string }>(knownRecords: readonly L[]): L[] {
  const newest = [...knownRecords].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  return probePlaces.flatMap((place) => newest[place - 1] ?? []);
}

/** What the server still has of the known records: one of the newest, none, or too few are known to say. */
interface Remainder {
  readonly remains: 'kept' | 'gone' | 'unclear';
  /** The known record that has another creation time now. */
  readonly redated?: string | undefined;
}

/** What remains of each resource by itself: gone if one of them is. */
async function remainsOfEach(ports: ObjectionPorts, newest: readonly KnownRecord[]): Promise<Remainder> {
  let found: Remainder = { remains: 'unclear' };
  for (const resource of resourceNames) {
    const each = await remainsOf(
      ports,
      newest.filter((known) => known.resource === resource),
    );
    if (each.remains === 'gone') return each;
    if (each.remains === 'kept') found = each;
  }
  return found;
}

/** Requests some of the newest records, the newest first, until one is there. */
async function remainsOf(ports: ObjectionPorts, newest: readonly KnownRecord[]): Promise<Remainder> {
  let redated: string | undefined;
  for (const { resource, id, createdAt } of probesOf(newest)) {
    // One after another: usually the first is there.
    const found = await ports.source.look(resource, id, ports.signal);
    // A resource whose records cannot be requested one by one proves nothing, so the others must.
    if (found.kind === 'unknown') {
      return remainsOf(
        ports,
        newest.filter((each) => each.resource !== resource),
      );
    }
    if (found.kind === 'absent') continue;
    const served = found.record['created_at'];
    if (isSameTime(served, createdAt)) return { remains: 'kept' };
    redated ??= `created_at of ${resource} ${id} is ${shortLine(jsonText(served ?? null))}, not ${createdAt}`;
  }
  // So few may all have been deleted. But an id is never given to two records.
  const isGone = newest.length >= knownRecordCount || redated !== undefined;
  return { remains: isGone ? 'gone' : 'unclear', redated };
}

/** Whether all lists that were read before are empty, as while a server is being set up anew. */
async function showsNothing({ source, store, signal }: ObjectionPorts): Promise<boolean> {
  for (const resource of resourceNames) {
    const profile = storedProfile(store, resource)?.profile;
    if (profile !== undefined && (await source.total(resource, null, profile, signal)) > 0) return false;
  }
  return true;
}

function refusal(address: string, objection: string): OtherServerError {
  return new OtherServerError(`is ${address} still the server that the mirror was read from? It ${objection}`, {
    advice:
      'Nothing was changed. If it is not, check the base address and the key, or name another mirror file with --db. ' +
      'If it is, or if the mirror should become a mirror of this server, add --accept-new-server. Rows that this server ' +
      'does not have are then removed; many of them only with --allow-deletions.',
  });
}

/** `Date` headers have whole seconds, and responses take some time. */
const noiseMs = 2 * secondMs;

/** Smaller differences are not reported. */
const reportedMs = 2 * minuteMs;

/** Returns the time by the clock that is behind. @param aheadMs by how much the server's clock is ahead of this machine's */
export function byEarlierClock(at: Timestamp, aheadMs: number): Timestamp {
  return aheadMs < -noiseMs ? timestampOf(Date.parse(at) + aheadMs - noiseMs) : at;
}

/** Returns the time by the clock that is ahead, ms since 1970. */
export function byLaterClock(ms: number, aheadMs: number): number {
  return aheadMs > noiseMs ? ms + aheadMs + noiseMs : ms;
}

/** Records a difference that matters. Returns the words for it; undefined if there is none. */
export function noteClockDifference(
  store: Pick<MirrorStore, 'recordEvent'>,
  run: string,
  aheadMs: number,
): string | undefined {
  if (Math.abs(aheadMs) < reportedMs) return undefined;
  const side = aheadMs > 0 ? 'behind' : 'ahead of';
  const minutes = Math.round(Math.abs(aheadMs) / minuteMs);
  const detail = `this machine's clock is ${minutes} min ${side} the server's; how fresh the mirror is goes by the earlier of the two`;
  store.recordEvent(run, { resource: null, kind: 'clock_differs', subject: run, detail });
  return detail;
}
