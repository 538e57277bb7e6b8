/** Everything that a running sandbox is made of, passed to whoever works on it. */
import type { ResourceName } from '../model/resources.ts';
import type { Behaviour } from './behaviour.ts';
import type { SandboxClock } from './calendar.ts';
import type { Ledger, RecordTable } from './records.ts';
import type { Random } from './random.ts';
import type { Related } from './related.ts';
import type { Db } from './schema.ts';

export interface SandboxState {
  readonly db: Db;
  readonly tables: Readonly<Record<ResourceName, RecordTable>>;
  readonly related: Related;
  readonly ledger: Ledger;
  readonly clock: SandboxClock;
  /** Replaced whole when a switch is set. */
  behaviour: Behaviour;
  readonly chance: Random;
  /** Decides what churn does; apart, so that a fault more or less does not change the data. */
  readonly churn: Random;
  /** Totals that are remembered, by what was counted. */
  readonly totals: Map<string, { readonly total: number; readonly until: number }>;
  readonly key: string;
  /** The base address, once it listens. */
  url: string;
}

/** What a handler returns; the body is JSON already. */
export interface Response {
  readonly status: number;
  readonly body: string | Buffer;
}
