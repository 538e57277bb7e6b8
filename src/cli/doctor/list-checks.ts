/**
 * The doctor on the four lists: what the server can do with each, as `sync` measured it at first contact, or measured
 * now where no sync did.
 */
import { type Capabilities, measureCapabilities } from '../../api/capabilities.ts';
import type { Client } from '../../api/client.ts';
import { KeyRefused } from '../../api/errors.ts';
import { type CapabilityStatus, describeCapabilities } from '../../mirror/status.ts';
import { OperatorError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { type Clock, timestampOf } from '../../model/time.ts';
import { capabilityWords, sizeWords } from '../capability-words.ts';
import { type Check, failed, ok, warn } from './check.ts';

export interface ListChecks {
  readonly checks: readonly Check[];
  /** What the lists can do, those on record and those measured now. */
  readonly capabilities: Readonly<Partial<Record<ResourceName, CapabilityStatus>>>;
  readonly measured: ReadonlyMap<ResourceName, Capabilities>;
}

export interface ListsToCheck {
  readonly client: Client;
  /** Records on a page that are asked for. */
  readonly pageSize: number;
  /** What is on record of the list; null where it is to be measured. */
  readonly stored: (resource: ResourceName) => CapabilityStatus | null;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Looks at every list. A key that may not see one is a warning, one that may see none is refused. */
export async function checkLists(lists: ListsToCheck): Promise<ListChecks> {
  const checks: Check[] = [];
  const refusals: Check[] = [];
  const capabilities: Partial<Record<ResourceName, CapabilityStatus>> = {};
  const measured = new Map<ResourceName, Capabilities>();
  for (const resource of resourceNames) {
    try {
      // One after the other: what the first has shown need not be measured again.
      const status = (await storedOne(lists, resource)) ?? (await measureOne(lists, resource, measured));
      capabilities[resource] = status;
      checks.push(judge(resource, status, lists.pageSize, measured.has(resource)));
    } catch (error) {
      lists.signal.throwIfAborted();
      if (!(error instanceof OperatorError)) throw error;
      if (error instanceof KeyRefused) refusals.push(failed(`${resource} list`, error));
      else checks.push(failed(`${resource} list`, error));
    }
  }
  const all = refusals.length === resourceNames.length;
  const told = all ? refusals : refusals.map(({ name, finding, advice }) => warn(name, finding, advice));
  return { checks: [...told, ...checks], capabilities, measured };
}

/** What is on record, once the list has answered: the key may not see it any more. */
async function storedOne(
  { client, stored, signal }: ListsToCheck,
  resource: ResourceName,
): Promise<CapabilityStatus | null> {
  const status = stored(resource);
  if (status !== null) await client.list(resource, { paginate: 1 }, signal);
  return status;
}

async function measureOne(
  { client, pageSize, clock, signal }: ListsToCheck,
  resource: ResourceName,
  measured: Map<ResourceName, Capabilities>,
): Promise<CapabilityStatus> {
  const [known] = measured.values();
  const capabilities = await measureCapabilities(client, resource, signal, { known, pageSize, clock });
  measured.set(resource, capabilities);
  return describeCapabilities(capabilities, timestampOf(clock.now()));
}

function judge(resource: ResourceName, status: CapabilityStatus, asked: number, isNew: boolean): Check {
  const name = `${resource} list`;
  const when = isNew ? 'measured now' : `measured ${status.measured_at}`;
  const why = status.notes.map((note) => note.replace(`${resource}: `, '')).join('; ');
  const remarks = `(${[why, when].filter((each) => each !== '').join('; ')})`;
  const found = `${capabilityWords(status, asked)} ${remarks}`;
  if (status.sorts !== 'ignored' && status.ranges !== null) return ok(name, found);
  // Nothing is wrong with an empty list.
  if (why.includes('no record')) return ok(name, `${sizeWords(status, asked)} ${remarks}`);
  return warn(name, found, 'The mirror stays right; `sync` needs more requests.');
}
