/** A server with responses that the test decides, on a free local port. It is closed when the test ends. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { type Client, type ClientOptions, openClient } from '../../../src/api/operations.ts';
import { silentLog } from '../../../src/model/log.ts';
import { systemClock } from '../../../src/model/time.ts';
import { listening } from '../../support/listening.ts';

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface PlainServer {
  readonly url: string;
  /** Every request so far, in order. */
  readonly received: Received[];
}

/** `answer` gets each request with its body, and the number of earlier requests. */
export type Answerer = (request: Received, response: ServerResponse, before: number) => void;

export async function startPlainServer(answer: Answerer): Promise<PlainServer> {
  const received: Received[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const one = { method, url, headers, body: Buffer.concat(chunks).toString() };
      received.push(one);
      answer(one, response, received.length - 1);
    });
  });
  return { url: await listening(server), received };
}

export function json(
  response: ServerResponse,
  status: number,
  body: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));
}

/** The envelope around a page of records. */
export function envelopeOf(records: readonly unknown[], page = 1, lastPage = 1, total = records.length): object {
  return {
    status: true,
    current_page: page,
    data: records,
    from: 1,
    last_page: lastPage,
    links: [],
    per_page: 15,
    to: records.length,
    total,
  };
}

export const testKey = 'test-key-0123456789';

/** A client that waits for nothing. It is closed after the test. */
export function clientOf(url: string, options: Partial<ClientOptions> = {}): Client {
  const client = openClient({
    baseUrl: url,
    key: testKey,
    timeoutMs: 5_000,
    concurrency: 8,
    attempts: 4,
    pageSize: 1_000,
    userAgent: 'admin-mirror tests',
    log: silentLog,
    clock: systemClock,
    sleep: () => Promise.resolve(),
    ...options,
  });
  onTestFinished(() => client.close());
  return client;
}

/** An address where nothing listens. */
export async function emptyAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  return `http://127.0.0.1:${port}`;
}
