/** Whether a text is still the one that it was, without keeping the text. */
import { createHash } from 'node:crypto';

/**
 * Four hex digits that follow from the text: enough to notice that a key or a name was changed, and far too few to find
 * out which it was or to test a guess.
 */
export function markOf(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 4);
}
