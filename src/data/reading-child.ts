/** The process that reads the mirror for one job of a command. It ends with the job, so it closes and stops nothing itself. */
import { openReadingStore } from './reading.ts';
import { type BrowseJob, browseBytes } from './browse.ts';
import { exportChunks, type ExportRequest } from './export.ts';
import { type JobNews, serveJob } from './job-process.ts';
import { maskedStore } from './personal.ts';
import { chartBytes, type ChartJob, previewBytes, type PreviewJob, tableChunks, type TableJob } from './query.ts';

export type ReadingJob = (
  | ({ readonly kind: 'table' } & TableJob)
  | ({ readonly kind: 'chart' } & ChartJob)
  | ({ readonly kind: 'preview' } & PreviewJob)
  | { readonly kind: 'export'; readonly request: ExportRequest }
  | ({ readonly kind: 'browse' } & BrowseJob)
) & {
  readonly isMasked?: boolean;
};

/** The one message that the process receives. */
export interface ReadingTask {
  readonly file: string;
  readonly job: ReadingJob;
}

/** Yields the bytes of the result. Throws what the job throws. */
async function* chunksOf({ file, job }: ReadingTask, emit: (news: JobNews) => void): AsyncGenerator<Uint8Array> {
  const opened = openReadingStore(file);
  const store = job.isMasked === true ? maskedStore(opened) : opened;
  const onWarning = (text: string): void => emit({ kind: 'warning', text });
  switch (job.kind) {
    case 'table':
      return yield* tableChunks(store.snapshot(), job);
    case 'chart':
      return yield await chartBytes(store.snapshot(), job, onWarning);
    case 'preview':
      return yield previewBytes(store.snapshot(), job, onWarning);
    case 'export': {
      const { signal } = new AbortController();
      const onRows = (rows: number): void => emit({ kind: 'rows', rows });
      return yield* exportChunks(store, job.request, { signal, onRows, onWarning });
    }
    case 'browse':
      return yield browseBytes(store.snapshot(), job);
  }
}

serveJob(chunksOf);
