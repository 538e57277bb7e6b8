/**
 * Makes pages of responses in a thread of its own, while this one asks for the next and writes those before. What it buys is
 * in bench/page-thread.ts. Section "Requests" of docs/architecture.md.
 */
import type { MessagePort, Worker } from 'node:worker_threads';
import { UnreadableResponse } from '../api/response-body.ts';
import type { HttpResponse } from '../api/http.ts';
import { errorOf, type Failure, failureOf, threadError } from '../model/failure.ts';
import { startThread } from '../model/thread.ts';
import { type PageTask, type ReadPage, readPageOf } from './page.ts';
import { openRowMaker } from './store/page-rows.ts';

/** Makes a page of a response, whose memory it takes. Throws an UnreadableResponse as `pageOf` does. */
export type PageReader = (response: HttpResponse, task: PageTask) => ReadPage | Promise<ReadPage>;

/** The same in the thread of the caller. */
export function openPlainReader(): (response: HttpResponse, task: PageTask) => ReadPage {
  const makeRows = openRowMaker();
  return (response, task) => readPageOf(response, task, makeRows);
}

type Request = { readonly id: number; readonly response: HttpResponse; readonly task: PageTask };
type Reply =
  | { readonly id: number; readonly page: ReadPage }
  /** The response goes back: whoever asked for it tells what is wrong with it. */
  | { readonly id: number; readonly response: HttpResponse }
  | { readonly id: number; readonly failure: Failure };

/** The page at hand and the rows made of it are all that the thread has to hold; without bounds garbage would gather. */
const resourceLimits = { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 768 };

/** One for the process: it starts once, whoever reads pages, and holds nothing up that has nothing more to read. */
let shared: PageThread | undefined;

/** Reads pages in the thread; it gets ready at once. */
export function openPageReader(): PageReader {
  const thread = (): PageThread => (shared ??= new PageThread(() => (shared = undefined)));
  thread();
  const plain = openPlainReader();
  return async (response, task) => {
    const reply = await thread().read(response, task);
    if ('page' in reply) return reply.page;
    if ('failure' in reply) throw errorOf(reply.failure);
    // It throws what it threw there.
    return plain({ ...reply.response, body: bufferOf(reply.response.body) }, task);
  };
}

/** Bytes come over as a plain array of them. */
function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, byteLength);
}

class PageThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, { resolve: (reply: Reply) => void; reject: (error: unknown) => void }>();
  #last = 0;

  constructor(ended: () => void) {
    this.#worker = startThread('./page-thread', import.meta.url, { resourceLimits });
    this.#worker.unref();
    this.#worker.on('message', (reply: Reply) => {
      this.#waiting.get(reply.id)?.resolve(reply);
      this.#waiting.delete(reply.id);
      if (this.#waiting.size === 0) this.#worker.unref();
    });
    const end = (error: Error): void => {
      ended();
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
    };
    this.#worker.on('error', (error: Error) => end(threadError(error)));
    this.#worker.on('exit', () => end(new Error('the thread that reads pages has ended')));
  }

  read(response: HttpResponse, task: PageTask): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const id = (this.#last += 1);
      this.#waiting.set(id, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage({ id, response, task } satisfies Request, [response.body.buffer as ArrayBuffer]);
    });
  }
}

/** Answers what the port asks for, one page after the other. */
export function servePages(port: MessagePort): void {
  const read = openPlainReader();
  port.on('message', ({ id, response: given, task }: Request) => {
    const response = { ...given, body: bufferOf(given.body) };
    try {
      const page = read(response, task);
      const memory = page.rows.map(({ json }) => json.buffer as ArrayBuffer);
      port.postMessage({ id, page } satisfies Reply, memory);
    } catch (error) {
      if (error instanceof UnreadableResponse)
        port.postMessage({ id, response } satisfies Reply, [response.body.buffer as ArrayBuffer]);
      else port.postMessage({ id, failure: failureOf(error) } satisfies Reply);
    }
  });
}
