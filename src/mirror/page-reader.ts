/**
 * Makes pages of responses in a thread of its own, while this one asks for the next and writes those before. What it buys is
 * in bench/page-thread.ts. Section "Requests" of docs/architecture.md.
 */
import type { MessagePort, Worker } from 'node:worker_threads';
import { UnreadableAnswer } from '../api/answer-body.ts';
import type { HttpAnswer } from '../api/http.ts';
import { errorOf, type Failure, failureOf, threadError } from '../model/failure.ts';
import { startThread } from '../model/thread.ts';
import { type PageTask, type ReadPage, readPageOf } from './page.ts';
import { openRowMaker } from './store/page-rows.ts';

/** Makes a page of a response, whose memory it takes. Throws an UnreadableAnswer as `pageOf` does. */
export type PageReader = (answer: HttpAnswer, task: PageTask) => ReadPage | Promise<ReadPage>;

/** The same in the thread of the caller. */
export function openPlainReader(): (answer: HttpAnswer, task: PageTask) => ReadPage {
  const makeRows = openRowMaker();
  return (answer, task) => readPageOf(answer, task, makeRows);
}

type Request = { readonly id: number; readonly answer: HttpAnswer; readonly task: PageTask };
type Reply =
  | { readonly id: number; readonly page: ReadPage }
  /** The response goes back: whoever asked for it tells what is wrong with it. */
  | { readonly id: number; readonly answer: HttpAnswer }
  | { readonly id: number; readonly failure: Failure };

/** The page at hand and the rows made of it are all that the thread has to hold; without bounds garbage would gather. */
const resourceLimits = { maxYoungGenerationSizeMb: 8, maxOldGenerationSizeMb: 768 };

/** One for the process: it starts once, whoever reads pages, and holds nothing up that has nothing more to read. */
let shared: PageThread | undefined;

/** Reads pages in the thread; it gets ready at once. */
export function openPageReader(): PageReader {
  shared ??= new PageThread(() => (shared = undefined));
  const plain = openPlainReader();
  return async (answer, task) => {
    const thread = (shared ??= new PageThread(() => (shared = undefined)));
    const reply = await thread.read(answer, task);
    if ('page' in reply) return reply.page;
    if ('failure' in reply) throw errorOf(reply.failure);
    // It throws what it threw there.
    return plain({ ...reply.answer, body: bufferOf(reply.answer.body) }, task);
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

  read(answer: HttpAnswer, task: PageTask): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const id = (this.#last += 1);
      this.#waiting.set(id, { resolve, reject });
      this.#worker.ref();
      this.#worker.postMessage({ id, answer, task } satisfies Request, [answer.body.buffer as ArrayBuffer]);
    });
  }
}

/** Answers what the port asks for, one page after the other. */
export function servePages(port: MessagePort): void {
  const read = openPlainReader();
  port.on('message', ({ id, answer: given, task }: Request) => {
    const answer = { ...given, body: bufferOf(given.body) };
    try {
      const page = read(answer, task);
      const memory = page.rows.map(({ json }) => json.buffer as ArrayBuffer);
      port.postMessage({ id, page } satisfies Reply, memory);
    } catch (error) {
      if (error instanceof UnreadableAnswer)
        port.postMessage({ id, answer } satisfies Reply, [answer.body.buffer as ArrayBuffer]);
      else port.postMessage({ id, failure: failureOf(error) } satisfies Reply);
    }
  });
}
