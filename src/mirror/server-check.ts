/** Whether the server still is the one that the mirror was read from, and whose clock to trust. Section "The same server" of docs/architecture.md. */
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { shortLine } from '../model/text.ts';
import { isSameTime, minuteMs, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { jsonText } from '../store/cell.ts';
import type { StoredKnownRecord } from '../store/mirror-types.ts';
import { forgetProfile, forgetReading } from './profile.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import type { Owner, ServerContact } from './server-contact.ts';

/** The stored identity of the server, without any credential. */
export interface KnownServer {
  readonly address: string;
  readonly key_mark: string;
  /** Null if the server did not say whose key it is. */
  readonly owner: Pick<Owner, 'id' | 'marks'> | null;
}

const serverName = 'server';

/** Reads the server that the mirror was read from; null before the first contact. */
export function knownServer(store: Pick<MirrorStore, 'capability'>): KnownServer | null {
  return (store.capability(serverName, '')?.value as KnownServer | undefined) ?? null;
}

function recordServer(
  store: Pick<MirrorStore, 'recordCapability'>,
  { address, keyMark }: Pick<ServerContact, 'address' | 'keyMark'>,
  owner: KnownServer['owner'],
): void {
  const kept = owner === null ? null : { id: owner.id, marks: owner.marks };
  store.recordCapability(serverName, '', { address, key_mark: keyMark, owner: kept } satisfies KnownServer);
}

/** The run is refused: it would turn the mirror into one of another server, or of an older state of this one. */
export class OtherServerError extends UsageError {
  override readonly name = 'OtherServerError';
}

interface ServerCheckPorts {
  readonly contact: ServerContact;
  readonly store: Pick<
    MirrorStore,
    'capability' | 'recordCapability' | 'forgetCapability' | 'windows' | 'resetWindows' | 'knownRecords' | 'recordEvent'
  >;
  readonly run: string;
  readonly signal: AbortSignal;
}

/**
 * Checks the server and records it. Throws an OtherServerError if it may be another one, or an older state of the same, unless
 * that is `accepted`: then nothing that was read before counts. Throws as well if the server cannot be reached.
 */
export async function checkServer(ports: ServerCheckPorts, accepted: boolean): Promise<void> {
  const { contact, store, signal } = ports;
  const { address, keyMark } = contact;
  const known = knownServer(store);
  const isSameAddress = known?.address === address && known.key_mark === keyMark;
  const owner = isSameAddress ? null : await contact.owner(signal);
  const newest = knownRecordsOf(ports, 'newest', knownRecordCount);
  // An empty mirror has nothing to lose, whatever server it meets.
  const { remains, redated } = newest.length === 0 ? { remains: 'unclear' as const } : await remainsOf(ports, newest);
  const found = newest.length === 0 ? [] : objections({ known, address, owner, remains, redated });
  // If a server at the same address shows nothing at all, it may be down for a while. It counts as the same, and removes no row.
  const isBlank = found.length > 0 && isSameAddress && remains === 'gone' && (await contact.showsNothing(signal));
  const reasons = isBlank ? [] : found;
  if (reasons.length > 0) {
    if (!accepted) throw refusal(address, reasons);
    noteEvent(ports, 'server_accepted', reasons.join('; '));
    // All that was read and measured came from another server. The rows stay until a walk misses them.
    for (const resource of resourceNames) {
      forgetReading(store, resource);
      forgetProfile(store, resource);
    }
  } else if (known !== null && known.address !== address) {
    noteEvent(ports, 'server_moved', `it stood at ${known.address}, and has the same records and owner of the key`);
  }
  if (!isSameAddress) recordServer(store, contact, owner ?? (reasons.length > 0 ? null : (known?.owner ?? null)));
}

function noteEvent({ store, run, contact }: ServerCheckPorts, kind: string, detail: string): void {
  store.recordEvent(run, { resource: null, kind, subject: contact.address, detail });
}

type KnownRecord = StoredKnownRecord & { readonly resource: ResourceName };

function knownRecordsOf({ store }: ServerCheckPorts, order: 'newest' | 'oldest', count: number): KnownRecord[] {
  return resourceNames.flatMap((resource) =>
    store.knownRecords(resource, order, count).map((knownRecord) => ({ ...knownRecord, resource })),
  );
}

/** Requests some of the newest records, the newest first, until one is there. If none is, requests the oldest. */
async function remainsOf(
  ports: ServerCheckPorts,
  newest: readonly KnownRecord[],
): Promise<Pick<Evidence, 'remains' | 'redated'>> {
  const sights: Sight[] = [];
  let redated: string | undefined;
  for (const knownRecord of probesOf(newest)) {
    // One after another: usually the first is there.
    const { sight, createdAt } = await sightOf(ports, knownRecord);
    // A resource whose records cannot be requested one by one proves nothing, so the others must.
    if (sight === 'unknown') {
      const others = newest.filter(({ resource }) => resource !== knownRecord.resource);
      return remainsOf(ports, others);
    }
    sights.push(sight);
    if (sight === 'same') break;
    if (sight === 'other') {
      const { resource, id } = knownRecord;
      redated ??= `created_at of ${resource} ${id} is ${shortLine(jsonText(createdAt ?? null))}, not ${knownRecord.createdAt}`;
    }
  }
  const [oldest] = knownRecordsOf(ports, 'oldest', 1)
    .filter(({ resource }) => newest.some((each) => each.resource === resource))
    .sort((a, b) => (a.createdAt < b.createdAt ? -1 : 1));
  const asksOldest = sights.length > 0 && !sights.includes('same') && oldest !== undefined;
  const oldestSight = asksOldest ? (await sightOf(ports, oldest)).sight : 'unknown';
  return { remains: remainsFrom(sights, newest.length, oldestSight), redated };
}

async function sightOf(
  { contact, signal }: ServerCheckPorts,
  knownRecord: KnownRecord,
): Promise<{ readonly sight: Sight; readonly createdAt?: unknown }> {
  const look = await contact.look(knownRecord.resource, knownRecord.id, signal);
  if (look.kind !== 'found') return { sight: look.kind };
  const { createdAt } = look;
  return { sight: isSameTime(createdAt, knownRecord.createdAt) ? 'same' : 'other', createdAt };
}

function refusal(address: string, reasons: readonly string[]): OtherServerError {
  return new OtherServerError(
    `is ${address} still the server that the mirror was read from? It ${reasons.join(', and it ')}`,
    {
      advice:
        'Nothing was changed. If it is not, check the base address and the key, or name another mirror file with --db. ' +
        'If it is, or if the mirror should become a mirror of this server, add --accept-new-server. Rows that this server ' +
        'does not have are then removed; many of them only with --allow-deletions.',
    },
  );
}

/** What the server still has of the records that the mirror knows. */
type Remains =
  /** One of the newest is there, with the same creation time. */
  | 'kept'
  /** The oldest is there, but none of the newest: the state of an earlier day. */
  | 'restored'
  /** Neither the newest nor the oldest is there. */
  | 'gone'
  /** The mirror has too few records, or the server shows no single records. */
  | 'unclear';

interface Evidence {
  /** Null on the first contact. */
  readonly known: KnownServer | null;
  readonly address: string;
  /** Null if it is not known, or was not requested because address and key are the same. */
  readonly owner: Owner | null;
  readonly remains: Remains;
  /** Says which known record has another creation time, or one that cannot be read. */
  readonly redated?: string | undefined;
}

/**
 * Returns why this may be another server than the mirror's, each in words that follow "the server …". Another address with the
 * same records and key owner is no reason, nor is another key of the same user, nor a deleted record.
 */
export function objections({ known, address, owner, remains, redated }: Evidence): string[] {
  const reasons: string[] = [];
  if (known?.owner && owner !== null && !isSameOwner(known.owner, owner)) {
    const name = owner.name === null ? '' : ` (${owner.name})`;
    reasons.push(`says that the key belongs to user ${owner.id}${name}, and it belonged to user ${known.owner.id}`);
  }
  if (remains === 'restored') reasons.push('has lost the newest records that the mirror knows, as after an old backup');
  if (remains === 'gone') {
    const example = redated === undefined ? '' : `, or writes their times in another way (${redated})`;
    reasons.push(`has other records than those that the mirror knows${example}`);
  }
  if (known !== null && known.address !== address && remains === 'unclear') {
    reasons.push(`stood at ${known.address} before, and nothing shows that it is the same`);
  }
  return reasons;
}

/** Whether it is the same user. One with another name or email is the same; one that shares only the id is not. */
export function isSameOwner(known: Pick<Owner, 'id' | 'marks'>, now: Pick<Owner, 'id' | 'marks'>): boolean {
  if (known.id !== now.id) return false;
  const shared = Object.keys(known.marks).filter((field) => now.marks[field] !== undefined);
  return shared.length === 0 || shared.some((field) => known.marks[field] === now.marks[field]);
}

/** Which of the newest records of all resources are requested, one after another, until one is found. */
const probePlaces = [1, 2, 4, 8];
/** A mirror with fewer records cannot tell a restored backup from deletions. */
const knownRecordCount = 8;

/** Returns the known records to request, in order. */
export function probesOf<L extends { readonly createdAt: string }>(knownRecords: readonly L[]): L[] {
  const newest = [...knownRecords].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  return probePlaces.flatMap((place) => newest[place - 1] ?? []);
}

/** How the server shows a known record: the same, created at another time, not there, or not known. */
type Sight = 'same' | 'other' | 'absent' | 'unknown';

/**
 * @param newest how the requested ones were seen
 * @param count how many known records there are
 * @param oldest how that one was seen
 */
export function remainsFrom(newest: readonly Sight[], count: number, oldest: Sight): Remains {
  if (newest.includes('same')) return 'kept';
  if (count >= knownRecordCount) return oldest === 'same' ? 'restored' : 'gone';
  return newest.includes('other') ? 'gone' : 'unclear';
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
