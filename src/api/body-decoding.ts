/** Bodies that come compressed although nothing asked for it, or with a byte order mark, as the bytes of their text. */
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { headerText } from './answer-headers.ts';
import type { HttpHeaders } from './http.ts';
import { codeOf } from './redact.ts';
import { type Circumstances, tooLarge, type TransportError, transportErrorOf } from './transport-error.ts';

type Decode = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const inflate: Decode = promisify(zlib.inflate);
const inflateRaw: Decode = promisify(zlib.inflateRaw);
/** In the first byte of a zlib stream; some servers send the bare stream under the same name. */
const deflateMethod = 8;

const decoders: Readonly<Record<string, Decode>> = {
  gzip: promisify(zlib.gunzip),
  'x-gzip': promisify(zlib.gunzip),
  br: promisify(zlib.brotliDecompress),
  zstd: promisify(zlib.zstdDecompress),
  deflate: (bytes, options) => ((bytes[0] ?? 0) % 16 === deflateMethod ? inflate : inflateRaw)(bytes, options),
  identity: (bytes) => Promise.resolve(bytes),
};

const byteOrderMark = Buffer.from([0xef, 0xbb, 0xbf]);

/** The body as plain text, of `most` bytes at the most. Rejects with whatever `decodingErrorOf` takes. */
export async function decodedBody(body: Buffer, headers: HttpHeaders, most: number): Promise<Buffer> {
  const codings = headerText(headers, 'content-encoding')?.toLowerCase().split(',') ?? [];
  let plain = body;
  // Undone one after the other, the last that was applied first. Nothing may be wrapped around nothing: a 204.
  for (const coding of body.length === 0 ? [] : codings.reverse()) {
    const decode = decoders[coding.trim()];
    if (decode === undefined) throw new Error(`the answer is encoded as ${coding.trim().slice(0, 20)}`);
    plain = await decode(plain, { maxOutputLength: most });
  }
  if (plain.subarray(0, byteOrderMark.length).equals(byteOrderMark)) plain = plain.subarray(byteOrderMark.length);
  // zlib's memory may be shared with other buffers, and an answer must be able to go over to another thread.
  return plain === body ? body : Buffer.from(Uint8Array.from(plain).buffer);
}

export function decodingErrorOf(error: unknown, most: number, circumstances: Circumstances): TransportError {
  if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') return tooLarge(most, circumstances);
  return transportErrorOf(error, circumstances, 'protocol');
}
