/** The job of a process that reads the mirror, and its messages: plain data, all of it. */
import type { ReadingModule, ReadingStore } from '../store/reading-types.ts';
import type { BrowseJob } from './browse.ts';
import type { ExportRequest } from './export.ts';
import type { JobNews } from './job-child.ts';
import { maskedStore } from './personal.ts';
import type { PreviewJob } from './preview.ts';
import type { ChartJob } from './query-chart.ts';
import type { QueryRequest } from './query.ts';
import type { PlanFormat } from './query-plan.ts';

export type ReadingJob = (
  | { readonly kind: 'query'; readonly request: QueryRequest }
  | { readonly kind: 'plan'; readonly sql: string; readonly format: PlanFormat }
  | ({ readonly kind: 'chart' } & ChartJob)
  | ({ readonly kind: 'preview' } & PreviewJob)
  | { readonly kind: 'export'; readonly request: ExportRequest }
  | ({ readonly kind: 'browse' } & BrowseJob)
) & {
  /** Without what is about people. */
  readonly isMasked?: boolean;
};

/** What the process is sent, once. */
export interface ReadingTask {
  readonly file: string;
  readonly job: ReadingJob;
}

/** The bytes of the result. Throws what the job throws. */
export async function* jobChunks(
  { openReadingStore }: ReadingModule,
  { file, job }: ReadingTask,
  emit: (news: JobNews) => void,
): AsyncGenerator<Uint8Array> {
  const store = openReadingStore(file);
  try {
    yield* await chunksOf(job.isMasked === true ? maskedStore(store) : store, job, emit);
  } finally {
    store.close();
  }
}

/** Nobody stops a job from within its process: the process itself is ended. */
const { signal } = new AbortController();

async function chunksOf(
  store: ReadingStore,
  job: ReadingJob,
  emit: (news: JobNews) => void,
): Promise<AsyncIterable<Uint8Array>> {
  const onWarning = (text: string): void => emit({ kind: 'warning', text });
  switch (job.kind) {
    case 'query': {
      const { queryChunks } = await import('./query.ts');
      return queryChunks(store, job.request, signal);
    }
    case 'plan': {
      const { planChunks } = await import('./query-plan.ts');
      return planChunks(store, job.sql, job.format);
    }
    case 'chart': {
      const { chartChunks } = await import('./query-chart.ts');
      return chartChunks(store, job, onWarning);
    }
    case 'preview': {
      const { previewChunks } = await import('./preview.ts');
      return previewChunks(store, job, onWarning);
    }
    case 'export': {
      const { exportChunks } = await import('./export.ts');
      return exportChunks(store, job.request, {
        signal,
        onRows: (rows) => emit({ kind: 'rows', rows }),
        onWarning,
      });
    }
    case 'browse': {
      const { browseChunks } = await import('./browse.ts');
      return browseChunks(store, job);
    }
  }
}
