/** Chunks, compressed as they pass. */
import { pipeline } from 'node:stream/promises';
import { createGzip, createZstdCompress } from 'node:zlib';
import type { Compression } from './formats.ts';

/** The chunks as one compressed file. An error of the chunks is thrown on. */
export async function* compressed(
  chunks: AsyncIterable<Uint8Array>,
  compression: Compression,
): AsyncGenerator<Uint8Array> {
  const compressor = compression === 'gzip' ? createGzip() : createZstdCompress();
  const feeding = pipeline(chunks, compressor);
  // Also thrown by the loop below, which is where it is dealt with.
  feeding.catch(() => {});
  for await (const chunk of compressor) yield chunk as Uint8Array;
  await feeding;
}
