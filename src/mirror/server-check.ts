/** Is this the server that the mirror was read from, and what is its clock? Sections "The same server" and "Windows and walks" of docs/architecture.md. */
import { shortLine } from '../api/envelope.ts';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { isSameTime, minuteMs, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { jsonText } from '../store/cell.ts';
import type { StoredKnownRecord } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { forgetCapabilities, forgetReading, type KnownServer, knownServer, recordServer } from './capability-record.ts';
import type { Owner, ServerContact } from './server-contact.ts';

/** The run was refused: it would have turned the mirror into one of another server, or of an older day. */
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
 * Makes sure of the server and puts it on record. Throws an OtherServerError where it may be another, or an older state of the same,
 * unless that is `accepted`: then nothing that was read before counts. Throws, too, what keeps it from being reached.
 */
export async function checkServer(ports: ServerCheckPorts, accepted: boolean): Promise<void> {
  const { contact, store, signal } = ports;
  const { address, keyMark } = contact;
  const known = knownServer(store);
  const sameDoor = known?.address === address && known.key_mark === keyMark;
  const owner = sameDoor ? null : await contact.owner(signal);
  const newest = knownRecordsOf(ports, 'newest', knownRecordCount);
  // An empty mirror has nothing to lose, whatever server it meets.
  const { remains, redated } = newest.length === 0 ? { remains: 'unclear' as const } : await remainsOf(ports, newest);
  const found = newest.length === 0 ? [] : objections({ known, address, owner, remains, redated });
  // Where it was before, a server that shows nothing at all is no other one, and no row goes on its word.
  const isBlank = found.length > 0 && sameDoor && remains === 'gone' && (await contact.showsNothing(signal));
  const reasons = isBlank ? [] : found;
  if (reasons.length > 0) {
    if (!accepted) throw refusal(address, reasons);
    noteEvent(ports, 'server_accepted', reasons.join('; '));
    // What was read, and measured, was of another server. The rows stay until a walk misses them.
    for (const resource of resourceNames) {
      forgetReading(store, resource);
      forgetCapabilities(store, resource);
    }
  } else if (known !== null && known.address !== address) {
    noteEvent(ports, 'server_moved', `it stood at ${known.address}, and has the same records and owner of the key`);
  }
  if (!sameDoor) recordServer(store, contact, owner ?? (reasons.length > 0 ? null : (known?.owner ?? null)));
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

/** Requests some of the newest records, the newest first, until one is there; where none is, for the oldest. */
async function remainsOf(
  ports: ServerCheckPorts,
  newest: readonly KnownRecord[],
): Promise<Pick<Evidence, 'remains' | 'redated'>> {
  const sights: Sight[] = [];
  let redated: string | undefined;
  for (const knownRecord of probesOf(newest)) {
    // One after the other: the first is there, as a rule.
    const { sight, createdAt } = await sightOf(ports, knownRecord);
    // A resource whose records cannot be requested one by one proves nothing: the others must do.
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
  const unseen = sights.length > 0 && !sights.includes('same') && oldest !== undefined;
  const first = unseen ? (await sightOf(ports, oldest)).sight : 'unknown';
  return { remains: remainsFrom(sights, newest.length, first), redated };
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
        'If it is, or the mirror shall become that of this server, add --accept-new-server: what this server does not ' +
        'have is then removed, and where that is much, only with --allow-deletions.',
    },
  );
}

/** What is left of the records that the mirror knows. */
type Remains =
  /** One of the newest is there, as it was created. */
  | 'kept'
  /** None of the newest is there, while the oldest is: the state of an earlier day. */
  | 'restored'
  /** None of the newest is there, nor is the oldest. */
  | 'gone'
  /** The mirror knows too little, or the server shows no single records. */
  | 'unclear';

interface Evidence {
  /** Null at the first contact. */
  readonly known: KnownServer | null;
  readonly address: string;
  /** Null where it is not known, or was not requested because nothing looks odd. */
  readonly owner: Owner | null;
  readonly remains: Remains;
  /** A known record that was created at another time, or whose time is written in a way that cannot be read, in words. */
  readonly redated?: string | undefined;
}

/**
 * Why this may be another server than the mirror's, in words that follow "the server …". Another address with the same records and
 * owner of the key is no reason, nor is another key of the same user, nor a deleted record.
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

/** A user who was given another name, or another address, is the same one; one that shares no more than the id is not. */
export function isSameOwner(known: Pick<Owner, 'id' | 'marks'>, now: Pick<Owner, 'id' | 'marks'>): boolean {
  if (known.id !== now.id) return false;
  const shared = Object.keys(known.marks).filter((field) => now.marks[field] !== undefined);
  return shared.length === 0 || shared.some((field) => known.marks[field] === now.marks[field]);
}

/** Places among the newest records of all resources that are requested, one after the other, until one is found. */
const probed = [1, 2, 4, 8];
/** So many of the newest may all have been deleted; where there are fewer, that looks the same as a restored backup. */
const knownRecordCount = 8;

/** The newest known records of all, those that are to be requested, in order. */
export function probesOf<L extends { readonly createdAt: string }>(knownRecords: readonly L[]): L[] {
  const newest = [...knownRecords].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
  return probed.flatMap((place) => newest[place - 1] ?? []);
}

/** A known record on the server: as it was, a record of the same id created at another time, none, or not to be found out. */
type Sight = 'same' | 'other' | 'absent' | 'unknown';

/** What the known records show. @param newest how those requested were seen @param count how many there are @param oldest how it was seen */
export function remainsFrom(newest: readonly Sight[], count: number, oldest: Sight): Remains {
  if (newest.includes('same')) return 'kept';
  if (count >= knownRecordCount) return oldest === 'same' ? 'restored' : 'gone';
  return newest.includes('other') ? 'gone' : 'unclear';
}

/** `Date` headers are cut to seconds, and responses take some time. */
const noiseMs = 2 * secondMs;

/** From here on the difference is reported. */
const reportedMs = 2 * minuteMs;

/** The time by whichever clock was behind. @param aheadMs by how much the server's is ahead */
export function byEarlierClock(at: Timestamp, aheadMs: number): Timestamp {
  return aheadMs < -noiseMs ? timestampOf(Date.parse(at) + aheadMs - noiseMs) : at;
}

/** The time by whichever clock is ahead, ms since 1970. */
export function byLaterClock(ms: number, aheadMs: number): number {
  return aheadMs > noiseMs ? ms + aheadMs + noiseMs : ms;
}

/** Puts a difference that matters on record; gives the words for it, undefined where there is none. */
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
