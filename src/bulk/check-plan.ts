/** Whether a batch may be sent as it was planned: the same file, server and key, and approved by somebody. */
import { createHash } from 'node:crypto';
import { UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { readRegularFile } from '../model/read-file.ts';
import type { Batch, Journal } from '../journal/port.ts';
import { keyOwner } from './key-owner.ts';
import type { LiveClient } from './live-users.ts';
import { limits } from './sheet/limits.ts';

const planAgain = 'Plan it again, and look at it again.';

/** Throws a UsageError where the file has other bytes than it had in the plan. One that is gone changes nothing. */
export function checkFile({ file, fileHash }: Batch, path: string | null): void {
  if (file === null || path === null || fileHash === null) return;
  let bytes: Uint8Array;
  try {
    ({ bytes } = readRegularFile(path, limits.fileBytes));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw explainFileError(error, 'read', path) ?? error;
  }
  if (createHash('sha256').update(bytes).digest('hex') === fileHash) return;
  throw new UsageError(`${file} has changed since the batch was planned from it; nothing was sent`, {
    advice: planAgain,
  });
}

/** Throws a UsageError where the server, or the user behind the key, is another than in the plan. */
export async function checkServer(
  { batch, server }: Batch,
  client: Pick<LiveClient, 'auth' | 'address' | 'keyMark'>,
  signal: AbortSignal,
): Promise<void> {
  if (client.address !== server.address) {
    throw new UsageError(
      `batch ${batch} was planned for ${server.address}, and this is ${client.address}; nothing was sent`,
      { advice: `Give the address that it was planned for, or plan it for this one. ${planAgain}` },
    );
  }
  const owner = await keyOwner(client, signal);
  const same = owner === null || server.owner === null ? client.keyMark === server.keyMark : owner === server.owner;
  if (same) return;
  throw new UsageError(`batch ${batch} was planned with the key of another user; nothing was sent`, {
    advice: `Use that key, or plan it with this one. ${planAgain}`,
  });
}

/** The batch of that name. Throws a UsageError where there is none. */
export async function batchOf(journal: Pick<Journal, 'batch' | 'batches'>, name: string): Promise<Batch> {
  const found = await journal.batch(name);
  if (found !== undefined) return found;
  const [newest] = await journal.batches();
  throw new UsageError(`there is no batch ${name}`, {
    advice:
      newest === undefined
        ? 'Nothing was planned yet.'
        : `The newest is ${newest.batch}; \`admin-mirror bulk status\` lists all.`,
  });
}
