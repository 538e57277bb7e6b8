/** What the sync engine asks of the server, in its own words, over the client. */
import type { Capabilities } from '../api/capabilities.ts';
import type { Page } from '../api/envelope.ts';
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Extent } from './windows.ts';

export interface PageRequest {
  readonly page: number;
  readonly paginate: number;
  /** Days as the server reads them; null for records of all times. */
  readonly range: DayRange | null;
}

export interface Source {
  /** What was asked about the resource so far; an answer that took several tries counts once. */
  requests(resource: ResourceName): number;
  /** Finds out how the server reads what the reference leaves open. */
  measure(resource: ResourceName, signal: AbortSignal): Promise<Capabilities>;
  page(resource: ResourceName, request: PageRequest, capabilities: Capabilities, signal: AbortSignal): Promise<Page>;
  total(
    resource: ResourceName,
    range: DayRange | null,
    capabilities: Capabilities,
    signal: AbortSignal,
  ): Promise<number>;
  /** The days of the oldest and the newest record, as far as the server's order can be relied on. */
  extent(resource: ResourceName, capabilities: Capabilities, signal: AbortSignal): Promise<Extent>;
  /** True only where the server answers that there is no such record. */
  isAbsent(resource: ResourceName, id: number, signal: AbortSignal): Promise<boolean>;
}
