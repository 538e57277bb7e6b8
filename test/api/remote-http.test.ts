import { hash } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openHttp, type Http, type HttpOptions } from '../../src/api/http.ts';
import { openRemoteHttp } from '../../src/api/remote-http.ts';
import { eraEnd, eraStart } from '../../src/model/era.ts';
import { startThread } from '../../src/model/thread.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { startSandbox } from '../support/sandbox.ts';

const window = { from: eraStart, to: eraEnd };

function optionsFor({ url, key }: Sandbox): HttpOptions {
  return { baseUrl: url, key, userAgent: 'tests', timeoutMs: 5_000, maxBodyBytes: 1_048_576, connections: 2 };
}

/** The transport of a sync, in a thread as the command starts it. */
function remote(options: HttpOptions): { http: Http; kill: () => Promise<unknown> } {
  const thread = startThread('../../src/reader-thread', import.meta.url, {});
  const http = openRemoteHttp(options, thread, (error) => new Error(`lost: ${error.message}`));
  onTestFinished(() => http.close());
  return { http, kill: () => thread.terminate() };
}

const path = '/api/v1/users?paginate=20&page=2&sort[created_at]=asc';

describe('a thread that sends requests', () => {
  test('gives the same answers as this one', async () => {
    const options = optionsFor(await startSandbox());
    const here = openHttp(options);
    onTestFinished(() => here.close());
    const { http } = remote(options);
    const [near, far] = await Promise.all([here.send({ method: 'GET', path }), http.send({ method: 'GET', path })]);
    expect(far.status).toBe(200);
    expect(far.body.equals(near.body)).toBe(true);
    expect(far.headers['content-type']).toEqual(near.headers['content-type']);
    expect([http.address, http.redact(options.key)]).toEqual([here.address, here.redact(options.key)]);
  });

  test('makes rows of a page where that is wished, and sends no bytes of it', async () => {
    const { http } = remote(optionsFor(await startSandbox()));
    const wish = { resource: 'users', page: 2, known: null, rowsOf: window } as const;
    const { body, digest } = await http.send({ method: 'GET', path, wish });
    expect(body).toHaveLength(0);
    const { content } = digest ?? {};
    expect(content).toMatchObject({ total: 60, lastPage: 3, perPage: 20, owned: 20 });
    expect(JSON.parse(Buffer.from(content?.rows.json ?? []).toString())).toHaveLength(20);
    expect(content?.ids).toEqual(content?.rows.ids);
  });

  test('recognises a page that it is told of by its bytes', async () => {
    const { http } = remote(optionsFor(await startSandbox()));
    const { body } = await http.send({ method: 'GET', path });
    const known = { hash: hash('sha1', body, 'base64'), total: 60, lastPage: 3, perPage: 20 };
    const wish = { resource: 'users', page: 2, known, rowsOf: window } as const;
    const again = await http.send({ method: 'GET', path, wish });
    expect(again.digest).toEqual({ hash: known.hash, content: null });
    expect(again.body).toHaveLength(0);
  });

  test('leaves an answer that it cannot read to be judged here', async () => {
    const sandbox = await startSandbox({ behaviour: { read_html: 1 } });
    const { http } = remote(optionsFor(sandbox));
    const wish = { resource: 'users', page: 2, known: null, rowsOf: window } as const;
    const { digest, body } = await http.send({ method: 'GET', path, wish });
    expect(digest).toBeUndefined();
    expect(body.toString()).toContain('<');
  });

  test('tells what became of a request that got no answer', async () => {
    const sandbox = await startSandbox({ behaviour: { read_reset_middle: 1 } });
    const { http } = remote(optionsFor(sandbox));
    await expect(http.send({ method: 'GET', path })).rejects.toMatchObject({ fault: 'reset', sent: true });
  });

  test('stops a request that is not wanted any more', async () => {
    const sandbox = await startSandbox({ behaviour: { read_hang: 1 } });
    const { http } = remote(optionsFor(sandbox));
    const stop = new AbortController();
    const sent = http.send({ method: 'GET', path }, stop.signal);
    stop.abort(new Error('enough'));
    await expect(sent).rejects.toMatchObject({ fault: 'aborted' });
    await expect(http.send({ method: 'GET', path }, stop.signal)).rejects.toThrow('enough');
  });

  test('that ends leaves nobody waiting', async () => {
    const sandbox = await startSandbox({ behaviour: { read_hang: 1 } });
    const { http, kill } = remote(optionsFor(sandbox));
    const [sent] = await Promise.allSettled([http.send({ method: 'GET', path }), kill()]);
    expect(sent).toMatchObject({ status: 'rejected', reason: new Error('the thread that reads ended') });
    await expect(http.send({ method: 'GET', path })).rejects.toThrow('the thread that reads ended');
  });
});
