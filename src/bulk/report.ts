/** A batch as `--json` tells it; the shape is part of the contract with scripts. */
import type { Batch, BatchState, Journal, JournalProblem } from '../store/ports/journal.ts';
import { type Counts, countsOf } from './intent.ts';

export interface BatchReport {
  readonly batch: string;
  readonly action: string;
  /** Null where the rows did not come from a file. */
  readonly file: string | null;
  /** What `--approve` takes. */
  readonly hash: string;
  readonly state: BatchState;
  readonly rows: number;
  /** They sum to `rows`. */
  readonly counts: Counts;
  readonly net: string;
  readonly problems: readonly JournalProblem[];
  readonly warnings: readonly string[];
}

type ReportJournal = Pick<Journal, 'counts' | 'lockOwner'>;

export function reportOf(journal: ReportJournal, batch: Batch): BatchReport {
  const { action, file, hash, rows, net, problems, warnings } = batch;
  const counts = countsOf(journal.counts(batch.batch));
  return {
    batch: batch.batch,
    action,
    file,
    hash,
    state: stateOf(journal, batch),
    rows,
    counts,
    net,
    problems,
    warnings,
  };
}

/** A batch whose process died is stopped, whatever it wrote last. */
function stateOf(journal: ReportJournal, batch: Batch): BatchState {
  if (batch.state !== 'applying') return batch.state;
  return journal.lockOwner(batch.batch) === undefined ? 'stopped' : 'applying';
}
