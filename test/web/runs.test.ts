// @module-tag full
import { describe, expect, test } from 'vitest';
import { openMirrorStore, openMirrorStoreForReading } from '../../src/mirror/store/mirror-store.ts';
import { openWorkerStoreForReading } from '../../src/worker/store/sqlite.ts';
import { startConsole } from '../support/console.ts';
import { operator } from '../support/people.ts';

type Browser = Awaited<ReturnType<Awaited<ReturnType<typeof startConsole>>['browser']>>;

/** The text of the page without its markup. */
async function textOf(response: Response): Promise<string> {
  return (await response.text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

/** The events of the run, read until it has ended. */
async function followed({ get }: Browser, path: string): Promise<unknown[]> {
  const response = await get(`${path}/events`);
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  const text = await response.text();
  return text
    .split('\n\n')
    .flatMap((each) => (!each.startsWith('data: ') ? [] : [JSON.parse(each.replace(/^data: /, '')) as unknown]));
}

async function started({ post }: Browser, form: Record<string, string>): Promise<string> {
  const response = await post('/runs', form);
  expect(response.status).toBe(303);
  return response.headers.get('location') ?? '';
}

describe('a sync started in the console', () => {
  test('shows its cost before it starts, belongs to the account, and can be followed to its end', async () => {
    const { browser, sandbox, file } = await startConsole({ sandbox: { users: 300 } });
    const anna = await browser('anna', ['operator']);
    const before = sandbox.control.requests();
    const plan = await textOf(await anna.get('/runs/new?what=quick'));
    expect(plan).toMatch(/At least \d+ requests?/);
    expect(plan).toContain('count, and the windows that differ if it does');
    expect(sandbox.control.requests()).toEqual(before);
    // The boxes and the start button share one form, so that ticked resources are started even if no cost was shown.
    const forms = (await (await anna.get('/runs/new?what=quick')).text()).split('<form');
    expect(forms.find((each) => each.includes('Start: '))).toContain('type="checkbox" name="resource" value="coupons"');

    const path = await started(anna, { what: 'quick', resource: 'coupons' });
    expect(await textOf(await anna.get(path))).toContain('Stop this run');
    expect((await followed(anna, path)).at(-1)).toEqual({ done: true });
    const shown = await textOf(await anna.get(path));
    expect(shown).toContain('admin-mirror sync coupons --quick');
    expect(shown).toContain('account anna');
    expect(shown).toMatch(/Outcome ✓ complete exit code 0/);
    // Its page says once who began it, and how it ended.
    expect(shown.split('account anna')).toHaveLength(2);
    // The run in the mirror has the same name and records who started it.
    expect(shown).toContain('The sync');
    const store = openMirrorStoreForReading(file);
    const detail = store.run(path.replace('/runs/', ''));
    store.close();
    expect(detail).toMatchObject({ actor: { account: 'anna' }, expected: { coupons: expect.any(Number) as number } });
    const list = await (await anna.get('/runs?by=anna')).text();
    // What was started here, and the sync that it was, are one run.
    expect(list.split(path)).toHaveLength(2);
    expect(await textOf(await anna.get('/runs?by=nobody-of-that-name'))).toContain('There is no such run.');
    expect(await textOf(await anna.get('/runs?by=nobody-of-that-name'))).not.toContain('There are none yet.');
  });

  test('can be stopped by a button', async () => {
    const { browser, sandbox, file } = await startConsole({ sandbox: { users: 300 } });
    const anna = await browser('anna', ['operator']);
    sandbox.control.setBehaviour({ latency: 60_000 });
    const path = await started(anna, { what: 'sync' });
    const run = path.replace('/runs/', '');
    await expect
      .poll(
        () => {
          const store = openMirrorStoreForReading(file);
          const found = store.lockOwner('sync')?.run;
          store.close();
          return found;
        },
        { timeout: 20_000 },
      )
      .toBe(run);
    expect((await anna.post(`${path}/stop`)).status).toBe(303);
    expect((await followed(anna, path)).at(-1)).toEqual({ done: true });
    const shown = await textOf(await anna.get(path));
    expect(shown).toContain('it was stopped by account anna');
    expect(shown).toContain('exit code 130');
    expect((await anna.post(`${path}/stop`)).status).toBe(422);
  });

  test('fails if the lock is held, and names the owner', async () => {
    const { browser, file } = await startConsole();
    const anna = await browser('anna', ['operator']);
    const store = openMirrorStore(file);
    store.acquireLock('sync', 'another', 'sync');
    expect(await textOf(await anna.get('/runs/new?what=sync'))).toContain(
      `Another run must end first: process ${process.pid}`,
    );
    const path = await started(anna, { what: 'sync' });
    await followed(anna, path);
    store.releaseLock('sync', 'another');
    store.close();
    const shown = await textOf(await anna.get(path));
    expect(shown).toContain('Another run must end first: another sync holds the lock: process');
    expect(shown).toContain('✗ locked exit code 7');
  });

  test('stops in order with the console, which is recorded', async () => {
    const { browser, sandbox, folder, close } = await startConsole({ sandbox: { users: 300 } });
    const anna = await browser('anna', ['operator']);
    sandbox.control.setBehaviour({ latency: 60_000 });
    const run = (await started(anna, { what: 'sync' })).replace('/runs/', '');
    await close();
    const store = openWorkerStoreForReading(`${folder}/data/mirror.worker.db`);
    const found = await store.run(run);
    await store.close();
    expect(found).toMatchObject({ outcome: 'stopped', actor: { account: 'anna' } });
  });
});

describe('a comparison started in the console', () => {
  test.each([
    ['deep', /^\d{2,3} of 300 records compared$/],
    ['verify', /^1 of 2 windows counted$/],
  ])('shows its progress while it runs (%s)', async (what, words) => {
    const { browser, sandbox } = await startConsole({ sandbox: { users: 300 } });
    const anna = await browser('anna', ['operator']);
    sandbox.control.faultNext({ fault: 'hang', match: { method: 'GET', path: '3000-01-01' } });
    const path = await started(anna, { what, resource: 'users' });
    const stream = (await anna.get(`${path}/events`)).body?.pipeThrough(new TextDecoderStream());
    for await (const event of stream ?? []) {
      const [, data = '{}'] = /data: (.*)\n/.exec(event) ?? [];
      const { records = '', done } = JSON.parse(data) as { records?: string; done?: true };
      if (words.test(records)) await anna.post(`${path}/stop`);
      if (done === true) break;
    }
    expect(await textOf(await anna.get(path))).toContain('it was stopped by account anna');
  });

  test('shows its cost before it starts, and its result', async () => {
    const { browser, sandbox } = await startConsole({ sandbox: { users: 50 } });
    const anna = await browser('anna', ['operator']);
    expect(await textOf(await anna.get('/runs/new?what=deep&resource=users'))).toMatch(
      /users the pages of every record \d+/,
    );
    sandbox.control.remove('users', 7);
    const path = await started(anna, { what: 'deep', resource: 'users' });
    await followed(anna, path);
    const shown = await textOf(await anna.get(path));
    expect(shown).toContain('✗ different exit code 6');
    expect(shown).toContain('extra, in the mirror only (1): 7');
  });
});

describe('a run', () => {
  test('that another process started shows its progress, and cannot be stopped here', async () => {
    const { browser, file, clock } = await startConsole();
    const store = openMirrorStore(file, clock);
    store.acquireLock('sync', 'night', 'sync');
    store.beginRun('night', 'sync', ['users'], { ...operator, job: 'nightly' });
    store.noteProgress('night', 'users', { requests: 3, expected: 1_000 });
    const reader = await browser('rita', ['reader']);
    const shown = await textOf(await reader.get('/runs/night'));
    const statesListed = async () => {
      const listed = await textOf(await reader.get('/runs'));
      return ['running', 'killed'].filter((state) => listed.includes(` ${state}`));
    };
    expect(await statesListed()).toEqual(['running']);
    expect(shown).toContain('0 of 1,000 records read');
    expect(shown).toContain('3 requests sent, of about 3');
    expect(shown).toContain('job nightly');
    expect(shown).toContain(`Stop it where it runs: process ${process.pid}`);
    expect(shown).not.toContain('Stop this run');
    store.releaseLock('sync', 'night');
    store.close();
    expect(await textOf(await reader.get('/runs/night'))).toContain('✗ killed');
    expect(await statesListed()).toEqual(['killed']);
  });

  test('sends no more events to an account that was disabled', async () => {
    const { browser, sandbox, people } = await startConsole({ sandbox: { users: 400 } });
    const [anna, berta] = [await browser('anna', ['operator']), await browser('berta')];
    sandbox.control.setBehaviour({ latency: 100 });
    const path = await started(anna, { what: 'sync' });
    const { body } = await berta.get(`${path}/events`);
    const events = (body ?? new ReadableStream()).pipeThrough(new TextDecoderStream()).values();
    while ((await events.next()).value?.includes('data: ') === false);
    await people.setState('berta', 'disabled');
    expect((await Array.fromAsync(events)).join('')).toBe('');
  });

  test('can be filtered by its outcome, and is a 404 with a reason if it does not exist', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('rita', ['reader']);
    expect(await textOf(await get('/runs?status=complete'))).toContain('✓ complete');
    expect(await textOf(await get('/runs?status=failed'))).toContain('There is no such run.');
    const none = await get('/runs/nothing');
    expect([none.status, await textOf(none)]).toEqual([404, expect.stringContaining('there is no such run')]);
  });

  test('cannot be started if the console is read-only', async () => {
    const { browser } = await startConsole({ address: { isReadOnly: true } });
    const anna = await browser('anna', ['operator']);
    expect(await textOf(await anna.get('/runs'))).not.toContain('Sync…');
    expect((await anna.post('/runs', { what: 'sync' })).status).toBe(404);
  });
});
