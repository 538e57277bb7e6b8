/** Text given on standard input. */
import { UsageError } from '../model/errors.ts';

/** More than any statement or email has; a device that never ends must not fill the memory. */
const mostBytes = 16 * 1024 * 1024;

/** All of it, as UTF-8. Throws a UsageError where it is longer than such a text can be. */
export async function readInput(stdin: AsyncIterable<Uint8Array | string>): Promise<string> {
  const pieces: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of stdin) {
    const piece = Buffer.from(chunk);
    bytes += piece.length;
    if (bytes > mostBytes) {
      throw new UsageError(`standard input has more than ${mostBytes / 1024 / 1024} MiB, which is no text to be read`, {
        advice: 'Check what is given to the command after <, or before |.',
      });
    }
    pieces.push(piece);
  }
  return Buffer.concat(pieces).toString('utf8');
}
