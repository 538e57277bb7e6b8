/** Verifying: nothing changes here or there. Section "Verifying" of docs/architecture.md. */
import pLimit from 'p-limit';
import { FileError, IncompleteError, OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { earliest, timestampOf, type Timestamp } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { sharedFailure } from './failures.ts';
import { verifyResource, type VerifyEnd, type ResourceVerdict } from './verify-resource.ts';
import type { ComparePorts } from './verify-window.ts';

interface VerifyPorts extends Omit<ComparePorts, 'resource' | 'capabilities'> {
  readonly counts: () => { readonly requests: number; readonly retries: number };
}

export interface VerifyRequest {
  readonly resources: readonly ResourceName[];
  /** Every record is compared; else the counts, and the records of windows whose counts differ. */
  readonly deep: boolean;
  readonly concurrency: number;
}

export interface VerifyReport {
  readonly status: 'equal' | 'different' | 'incomplete' | 'interrupted';
  readonly deep: boolean;
  readonly started_at: Timestamp;
  readonly finished_at: Timestamp;
  readonly requests: number;
  readonly retries: number;
  /** Every row was seen on the server at or after this time: what changed there since then is a difference. */
  readonly fresh_as_of: Timestamp | null;
  readonly resources: Partial<Record<ResourceName, ResourceVerdict>>;
}

export interface VerifyResult {
  readonly report: VerifyReport;
  /** Why not everything could be compared; null where it was, or where differences were found. */
  readonly error: OperatorError | null;
  /** Windows in which records differ: the next sync is to compare them. */
  readonly differing: readonly Window[];
}

/** Compares the resources with the server. Only bugs and a damaged mirror are thrown; all else is in the result. */
export async function verify(ports: VerifyPorts, request: VerifyRequest): Promise<VerifyResult> {
  const { clock, signal } = ports;
  const startedAt = timestampOf(clock.now());
  if (request.deep) ports.store.checkSoundness();
  const limit = pLimit(request.concurrency);
  const ends = await Promise.all(
    request.resources.map(async (resource) => {
      const end = await verifyResource({ ...ports, resource, limit, deep: request.deep });
      const { status, problem } = end.verdict;
      ports.progress({ kind: 'end', resource, status, problem });
      return end;
    }),
  );
  // Nothing that a damaged mirror says of the server is worth reporting.
  const damage = ends.map(({ error }) => error).find((error) => error instanceof FileError);
  if (damage !== undefined) throw damage;
  const verdicts = ends.map(({ verdict }) => verdict);
  const { requests, retries } = ports.counts();
  const report: VerifyReport = {
    status: statusOf(verdicts, signal),
    deep: request.deep,
    started_at: startedAt,
    finished_at: timestampOf(clock.now()),
    requests,
    retries,
    fresh_as_of: earliest(verdicts.map((verdict) => verdict.fresh_as_of)),
    resources: Object.fromEntries(request.resources.map((name, index) => [name, verdicts[index]])),
  };
  return { report, error: errorOf(ends, report.status, signal), differing: ends.flatMap(({ differing }) => differing) };
}

function statusOf(verdicts: readonly ResourceVerdict[], signal: AbortSignal): VerifyReport['status'] {
  if (signal.aborted) return 'interrupted';
  if (verdicts.some(({ status }) => status === 'different')) return 'different';
  return verdicts.some(({ status }) => status === 'incomplete') ? 'incomplete' : 'equal';
}

function errorOf(
  ends: readonly VerifyEnd[],
  status: VerifyReport['status'],
  signal: AbortSignal,
): OperatorError | null {
  if (status === 'interrupted') return signal.reason instanceof OperatorError ? signal.reason : null;
  if (status !== 'incomplete') return null;
  const shared = sharedFailure(ends.map(({ error, verdict }) => ({ error, reached: verdict.server_total !== null })));
  if (shared !== undefined) return shared;
  const problems = ends.flatMap(({ verdict }) => (verdict.problem === null ? [] : [verdict.problem]));
  return new IncompleteError(`not everything could be compared: ${[...new Set(problems)].join('; ')}`, {
    advice: 'What was compared is equal. Sync what the mirror has not read, and verify again.',
  });
}
