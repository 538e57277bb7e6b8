/** Writes chunks to a stream such as standard output, no faster than its reader takes them. */
import { once } from 'node:events';
import type { Writable } from 'node:stream';

/** Writes all chunks. Stops without an error if the reader has gone (`| head`). */
export async function writeToStream(
  stream: Writable,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  const failure: { error?: NodeJS.ErrnoException } = {};
  const failed = (error: NodeJS.ErrnoException) => {
    failure.error = error;
  };
  stream.on('error', failed);
  try {
    for await (const chunk of chunks) {
      signal.throwIfAborted();
      if (failure.error !== undefined || stream.destroyed) break;
      if (!stream.write(chunk)) await once(stream, 'drain', { signal });
    }
    if (failure.error !== undefined) throw failure.error;
  } catch (error) {
    signal.throwIfAborted();
    if ((error as NodeJS.ErrnoException).code !== 'EPIPE') throw error;
  } finally {
    stream.off('error', failed);
  }
}
