/** Chunks, compressed as they pass. */
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';

/** The chunks as one gzip file. An error of the chunks is thrown on. */
export async function* gzipped(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const gzip = createGzip();
  const feeding = pipeline(chunks, gzip);
  // Also thrown by the loop below, which is where it is dealt with.
  feeding.catch(() => {});
  for await (const chunk of gzip) yield chunk as Uint8Array;
  await feeding;
}
