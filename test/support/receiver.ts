/** A server that receives alerts and pings: it stores what it gets and responds as configured. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { AlertPayload } from '../../src/worker/alerts.ts';

export interface Taken {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

export interface Receiver {
  readonly url: string;
  readonly taken: readonly Taken[];
  /** The alerts that it received, in order, including refused ones. */
  readonly alerts: () => AlertPayload[];
  /** The problem of each accepted alert, with `over` if resolved: `job_failed:sync`, `over job_failed:sync`. */
  readonly told: () => string[];
  /** The status of its responses from now on; `hang`: no response. */
  answer: number | 'hang' | 'reset';
  close(): Promise<void>;
}

/** Starts one on a free port of this machine. The caller closes it. */
export async function openReceiver(): Promise<Receiver> {
  const taken: (Taken & { readonly isAccepted: boolean })[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (text: string) => (body += text));
    request.on('end', () => {
      const { answer } = receiver;
      const isAccepted = typeof answer === 'number' && answer < 300;
      const { method = '', url = '', headers } = request;
      taken.push({ method, path: url, headers, body, isAccepted });
      if (answer === 'reset') request.socket.destroy();
      else if (answer !== 'hang') response.writeHead(answer, { Location: '/elsewhere' }).end('thanks');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const alerts = (all: readonly Taken[]) => all.map(({ body }) => JSON.parse(body) as AlertPayload);
  const receiver: Receiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    alerts: () => alerts(taken.filter(({ method }) => method === 'POST')),
    told: () =>
      alerts(taken.filter(({ method, isAccepted }) => method === 'POST' && isAccepted)).map(
        ({ resolved, problem }) => `${resolved ? 'over ' : ''}${problem}`,
      ),
    answer: 200,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return receiver;
}
