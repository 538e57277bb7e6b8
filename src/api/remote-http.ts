/**
 * Requests that a thread of its own sends, and the answers that it has read there: pages are parsed beside the writing
 * of those before. The other side is `serveHttp`, run by src/reader-thread.ts.
 */
import type { MessagePort, Worker } from 'node:worker_threads';
import type { RowMaker } from '../model/page-rows.ts';
import { releaseBytes } from '../model/release-bytes.ts';
import { addressOf } from './address.ts';
import { UnreadableAnswer } from './answer-body.ts';
import type { Http, HttpAnswer, HttpOptions, HttpRequest } from './http.ts';
import { digestOf } from './page-digest.ts';
import { redactorOf } from './redact.ts';
import { TransportError, type TransportFault } from './transport-error.ts';

type ToReader =
  /** The first message. */
  | { readonly options: HttpOptions }
  | { readonly id: number; readonly request: HttpRequest }
  | { readonly id: number; readonly abort: true };

type FromReader =
  | { readonly id: number; readonly answer: Omit<HttpAnswer, 'body'> & { readonly body: Uint8Array } }
  | { readonly id: number; readonly fault: TransportFault; readonly sent: boolean; readonly message: string };

interface Waiting {
  readonly resolve: (answer: HttpAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** Sends by the thread, which runs `serveHttp`. `lost` says what its end without being asked means. */
export function openRemoteHttp(options: HttpOptions, thread: Worker, lost: (error: Error) => Error): Http {
  const waiting = new Map<number, Waiting>();
  let last = 0;
  let ended: Error | undefined;

  function end(error: Error): void {
    ended ??= error;
    for (const { reject } of waiting.values()) reject(ended);
    waiting.clear();
  }

  thread.on('message', (message: FromReader) => {
    const asked = waiting.get(message.id);
    waiting.delete(message.id);
    if ('answer' in message) {
      const { buffer, byteOffset, byteLength } = message.answer.body;
      asked?.resolve({ ...message.answer, body: Buffer.from(buffer, byteOffset, byteLength) });
    } else {
      asked?.reject(new TransportError(message.message, message.fault, message.sent));
    }
  });
  thread.on('error', (error: Error) => end(lost(error)));
  thread.on('exit', () => end(new Error('the thread that reads ended')));
  const say = (message: ToReader): void => {
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin, a window has
    thread.postMessage(message);
  };
  say({ options });

  return {
    address: addressOf(options.baseUrl).text,
    redact: redactorOf(options.key),
    send: (request, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) throw signal.reason;
        if (ended !== undefined) throw ended;
        const id = (last += 1);
        const onAbort = (): void => say({ id, abort: true });
        const settle = (): void => signal?.removeEventListener('abort', onAbort);
        waiting.set(id, {
          resolve: (answer) => {
            settle();
            resolve(answer);
          },
          reject: (error) => {
            settle();
            reject(error);
          },
        });
        signal?.addEventListener('abort', onAbort, { once: true });
        say({ id, request });
      }),
    close: async () => {
      await thread.terminate();
    },
  };
}

/** Sends what the port asks for, by the options that come first, and answers it; pages are read as wished. */
export function serveHttp(openHttp: (options: HttpOptions) => Http, port: MessagePort, makeRows: RowMaker): void {
  const stops = new Map<number, AbortController>();
  let http: Http | undefined;

  async function serve(http: Http, id: number, request: HttpRequest): Promise<void> {
    const stop = new AbortController();
    stops.set(id, stop);
    try {
      const answer = digested(await http.send(request, stop.signal), request, makeRows);
      const rows = answer.digest?.content?.rows.json;
      // Each has memory of its own, which goes over instead of being copied.
      const transfer = [answer.body, ...(rows === undefined ? [] : [rows])].map(({ buffer }) => buffer as ArrayBuffer);
      port.postMessage({ id, answer } satisfies FromReader, transfer);
    } catch (error) {
      const { fault, sent, message } =
        error instanceof TransportError ? error : new TransportError(String(error), 'aborted', false);
      port.postMessage({ id, fault, sent, message } satisfies FromReader);
    } finally {
      stops.delete(id);
    }
  }

  port.on('message', (message: ToReader) => {
    if ('options' in message) http = openHttp(message.options);
    else if ('abort' in message) stops.get(message.id)?.abort(new Error('stopped'));
    else if (http !== undefined) void serve(http, message.id, message.request);
  });
}

/** The answer with what was wished for of its page; what cannot be read is left for the other side to judge. */
function digested(answer: HttpAnswer, { wish }: HttpRequest, makeRows: RowMaker): HttpAnswer {
  if (wish === undefined || answer.status < 200 || answer.status > 299) return answer;
  try {
    const digest = digestOf(answer, wish, makeRows);
    if (digest.content === null && wish.known?.hash !== digest.hash) return { ...answer, digest };
    releaseBytes(answer.body);
    return { ...answer, digest, body: Buffer.allocUnsafeSlow(0) };
  } catch (error) {
    if (error instanceof UnreadableAnswer) return answer;
    throw error;
  }
}
