/** What is approved, in one line of hexadecimal: another one where anything that would be sent is another. */
import { createHash, hash } from 'node:crypto';
import type { PlannedServer } from '../journal/port.ts';
import type { PlannedRow } from './plan-rows.ts';

interface Approved {
  readonly action: string;
  readonly fileHash: string | null;
  readonly server: PlannedServer;
  readonly undoOf: string | null;
  readonly rows: readonly PlannedRow[];
}

export function planHash({ action, fileHash, server, undoOf, rows }: Approved): string {
  const digest = createHash('sha256');
  digest.update(JSON.stringify([action, fileHash, server.address, server.owner, undoOf]));
  for (const { row, valid, subject, parameters, before, after } of rows) {
    digest.update(JSON.stringify([row, valid, subject, parameters, before, after]));
  }
  return digest.digest('hex');
}

/** The same for two batches with the same rows, in whatever order and from whatever file. */
export function rowsDigest(rows: readonly PlannedRow[]): string {
  const fingerprints = rows.flatMap(({ fingerprint }) => fingerprint ?? []).sort();
  return hash('sha256', fingerprints.join('\n'));
}
