/** Exports in this process into its own file. */
import { join } from 'node:path';
import type { FileForm } from '../../src/data/export.ts';
import { exportChunks } from '../../src/data/export.ts';
import type { SourceRequest } from '../../src/data/source.ts';
import { writeDurableFile } from '../../src/store/files/durable-file.ts';
import { openReadingStore } from '../../src/data/reading.ts';
import { temporaryFolder } from './temporary-folder.ts';

interface ExportedFile {
  readonly path: string;
  readonly rows: number;
  readonly warnings: readonly string[];
}

export async function exportFile(
  mirror: string,
  form: Partial<FileForm> & Pick<FileForm, 'format'>,
  what: SourceRequest = { relation: 'users', meta: false },
): Promise<ExportedFile> {
  const path = join(temporaryFolder(), `out.${form.format}`);
  const { signal } = new AbortController();
  const warnings: string[] = [];
  let rows = 0;
  const store = openReadingStore(mirror);
  try {
    const request = { what, form: { raw: true, compression: null, bom: false, ...form } };
    const chunks = exportChunks(store, request, {
      signal,
      onRows: (more) => void (rows += more),
      onWarning: (warning) => void warnings.push(warning),
    });
    await writeDurableFile(path, chunks, signal);
  } finally {
    store.close();
  }
  return { path, rows, warnings };
}
