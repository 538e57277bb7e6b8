/** Sending twice what was sent once: refused, unless a person says so and why. */
import { UsageError } from '../model/errors.ts';
import type { Journal } from '../store/ports/journal.ts';

export interface Again {
  /** Why it shall be sent again; null where nobody said so. */
  readonly reason: string | null;
}

/** Throws a UsageError where the same file, or the same rows, were sent before. */
export function checkNotSent(
  journal: Pick<Journal, 'sentLike'>,
  like: { readonly fileHash: string | null; readonly rowsDigest: string },
  apartFrom: string | null,
  again: Again,
): void {
  const [before] = journal.sentLike(like, apartFrom);
  if (before === undefined || again.reason !== null) return;
  const what = like.fileHash !== null && like.fileHash === before.fileHash ? 'this file was' : 'the same rows were';
  const on = (before.appliedAt ?? before.createdAt).slice(0, 16).replace('T', ' ');
  throw new UsageError(`${what} sent before, on ${on} as batch ${before.batch}`, {
    advice:
      `See what became of it with \`admin-mirror bulk status ${before.batch}\`, and go on with it by ` +
      `\`admin-mirror bulk resume ${before.batch}\`. To send it a second time on purpose: --again --reason "…".`,
  });
}
