/** The files of a form, read as they arrive. */
import type { MultipartFile } from '@fastify/multipart';
import type { FastifyRequest } from 'fastify';
import { UsageError } from '../model/errors.ts';
import { limits, Refused } from './app.ts';
import type { Upload } from './route.ts';

/** Yields each file with the fields before it. The next one is read only after the previous one was consumed. */
export async function* uploadsOf(request: FastifyRequest): AsyncGenerator<Upload> {
  for await (const part of readOf(request.parts())) {
    if (part.type !== 'file') continue;
    const fields = Object.fromEntries(
      Object.entries(part.fields).flatMap(([name, field]) =>
        field !== undefined && !Array.isArray(field) && field.type === 'field' ? [[name, String(field.value)]] : [],
      ),
    );
    // Empty if no file was chosen.
    const name = (part.filename as string | undefined) ?? '';
    yield { field: part.fieldname, name, bytes: wholeFile(part.file, name), fields };
    // A file that nobody reads would block the next one, and the reply, for ever.
    part.file.resume();
  }
}

/** Turns errors of the form parser into refusals: a malformed form is not a bug of ours. */
async function* readOf<T>(read: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* read;
  } catch (error) {
    if (error instanceof Error && 'statusCode' in error) throw error;
    throw new Refused(400, 'the form is malformed, or ends too early');
  }
}

/** Yields the file. Throws if it is too large: the stream just ends then, and nobody must take half a sheet for a whole one. */
async function* wholeFile(file: MultipartFile['file'], name: string): AsyncGenerator<Uint8Array> {
  yield* readOf(file as AsyncIterable<Uint8Array>);
  if (!file.truncated) return;
  throw new UsageError(`${name} is larger than ${limits.fileBytes / 1024 / 1024} MB`, {
    advice: 'Split it into smaller files.',
  });
}
