/** What the sync engine asks of the server, in its own words, over the client. */
import type { RecordKey } from '../model/records.ts';
import type { Capabilities } from '../api/capabilities.ts';
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { RequestGate } from './allowance.ts';
import type { MirrorPage, PageWanted } from './page.ts';
import type { Look, ServerContact } from './server-contact.ts';
import type { Extent } from './windows.ts';

export interface PageRequest {
  readonly page: number;
  readonly paginate: number;
  /** Days as the server reads them; null for records of all times. */
  readonly range: DayRange | null;
  /** Only emails that wait to be sent. */
  readonly unsent?: boolean;
  /** Names of related records that shall come with each record. */
  readonly include?: readonly string[];
}

export interface Source {
  /** The server itself rather than its lists; what is asked there counts for no resource. */
  readonly contact: ServerContact;
  /** What was asked about the resource so far; a response that took several tries counts once. */
  requests(resource: ResourceName): number;
  /**
   * Finds out how the server reads what the reference leaves open.
   * @param before what was found out before, for what a list that shows nothing cannot tell
   */
  measure(resource: ResourceName, signal: AbortSignal, before?: Capabilities): Promise<Capabilities>;
  /** By how much the server's clock was ahead of this machine's at the last page; below 0 behind, 0 where it does not tell. */
  serverAheadMs(): number;
  /** Records beyond which pages of the resource were seen to fail; Infinity where none did. */
  readablePage(resource: ResourceName): number;
  /**
   * The page, in parts where the server cannot make it whole. Throws ContradictionError where records come from outside of
   * the range.
   * @param wanted what of it is wanted beside the ids of its records
   */
  page(
    resource: ResourceName,
    request: PageRequest,
    capabilities: Capabilities,
    signal: AbortSignal,
    wanted?: PageWanted,
  ): Promise<MirrorPage>;
  /** What the server says against sending these related records with each record; undefined where it sends them. */
  includeProblem(resource: ResourceName, include: readonly string[], signal: AbortSignal): Promise<string | undefined>;
  /** Records that the server counts in the range. Throws ContradictionError as `page` does. */
  total(
    resource: ResourceName,
    range: DayRange | null,
    capabilities: Capabilities,
    signal: AbortSignal,
  ): Promise<number>;
  /** The days of the oldest and the newest record, as far as the server's order can be relied on. */
  extent(resource: ResourceName, capabilities: Capabilities, signal: AbortSignal): Promise<Extent>;
  /** Asks for one record by itself. Throws where the response fails. */
  look(resource: ResourceName, id: RecordKey, signal: AbortSignal): Promise<Look>;
  /** The same source, which takes leave for each request that it sends. */
  within(gate: RequestGate): Source;
}
