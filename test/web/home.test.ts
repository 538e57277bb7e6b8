import { describe, expect, test } from 'vitest';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { roles } from '../../src/model/actor.ts';
import { dayMs } from '../../src/model/time.ts';
import { startConsole } from '../support/console.ts';
import { operator } from '../support/people.ts';

async function textOf(response: Response): Promise<string> {
  return (await response.text()).replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

describe('the home page', () => {
  test('says that nothing is wrong, how fresh each resource is, and which run is next', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('rita', ['reader']);
    const shown = await textOf(await get('/'));
    expect(shown).toContain('Nothing is wrong.');
    expect(shown).toMatch(/users [\d,]+ ✓ fresh /);
    expect(shown).toContain('No run is due');
  });

  test('shows what failed and its remedy and, for those who may start it, a button', async () => {
    const { browser, file, clock, sandbox } = await startConsole();
    sandbox.control.advanceClock(30 * dayMs);
    const store = openMirrorStore(file, clock);
    store.beginRun('broken', 'sync', ['users'], operator);
    const problem = 'the server is <b>down</b>';
    const failed = { status: 'failed', requests: 1, live: 0, server_total: null, fresh_as_of: null, problem } as const;
    store.finishResource('broken', 'users', failed);
    store.finishRun('broken', { status: 'failed', requests: 1, retries: 0, answers: {}, problem: 'down' });
    store.close();
    const anna = await browser('anna', ['operator']);
    const page = await (await anna.get('/')).text();
    expect(page).toContain('the server is &lt;b&gt;down&lt;/b&gt;');
    expect(page).toContain('the check of the set-up');
    expect(page).toMatch(/the last sync, of [^,]+, failed</);
    expect(page).toMatch(/so the mirror is older than/);
    // One outage is one problem, and the link appears once below it and once among the runs.
    expect(page.split('role="alert"')).toHaveLength(2);
    expect(page.split('href="/runs/new?what=sync"')).toHaveLength(3);
    expect(page).not.toContain('Nothing is wrong');
    const rita = await browser('rita', ['reader']);
    expect(await (await rita.get('/')).text()).not.toContain('/runs/new');
  });

  test('shows all servers of the config file, the worst first, and no server list if there is only one', async () => {
    const { browser } = await startConsole({
      config: 'worker: {max_staleness: 9999d}\nprofiles:\n  west: {api: {base_url: "https://west.example.com"}}\n',
    });
    const shown = await textOf(await (await browser('rita', ['reader'])).get('/'));
    expect(shown).toMatch(/Servers .* west . 2 problems never none \(no profile\), this one . good .* none/);
    const alone = await startConsole();
    expect(await textOf(await (await alone.browser('rita', ['reader'])).get('/'))).not.toContain('Servers');
  });
});

test('the home page shows what was synced on each of the last 30 days, and how the number of rows went', async () => {
  const { browser, file, clock, sandbox } = await startConsole({ sandbox: { users: 40 } });
  const store = openMirrorStore(file, clock);
  for (const [at, status] of (['complete', 'failed', 'partial', 'complete'] as const).entries()) {
    sandbox.control.advanceClock(dayMs);
    store.beginRun(`night-${at}`, 'sync', ['users'], operator);
    sandbox.control.advanceClock(90_000);
    const end = { requests: 7, server_total: 40, fresh_as_of: null, problem: null };
    store.finishResource(`night-${at}`, 'users', {
      ...end,
      status: status === 'failed' ? 'failed' : 'complete',
      live: 40 + at,
    });
    store.finishRun(`night-${at}`, { status, requests: 7, retries: 0, answers: {}, problem: null });
  }
  store.close();
  const page = await (await (await browser('rita', ['reader'])).get('/')).text();
  expect(page.match(/: no sync</g)).toHaveLength(25);
  expect(page.match(/: (?:complete|failed|partial), 1 sync, 90 s, 7 requests</g)).toHaveLength(4);
  expect(page).toContain(
    'Syncs on 5 of the last 30 days: on 2 days the last one was not complete; the longest day took 90 s.',
  );
  expect(page).toMatch(/users: 40 30 days ago or at the first sync since, 43 now/);
});

test('the environment stands in the header of every page, with its colour', async () => {
  const { browser } = await startConsole({ config: 'environment: production red\n' });
  const { get } = await browser('anna', [...roles]);
  for (const path of ['/', '/batches', '/nowhere']) {
    expect(await (await get(path)).text()).toContain('<strong class="environment red">production</strong>');
  }
});

test('the home page is small with everything it loads, and so is its script', async () => {
  const { browser } = await startConsole({ sandbox: { users: 300 } });
  const { get } = await browser('anna', [...roles]);
  const page = await (await get('/')).text();
  const loaded = [...page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path = '']) => path);
  const sizes = new Map<string, number>();
  for (const path of loaded) sizes.set(path, (await (await get(path)).arrayBuffer()).byteLength);
  const scripts = [...sizes].filter(([path]) => path.endsWith('.js')).map(([, size]) => size);
  expect(scripts).toHaveLength(1);
  expect(Math.max(...scripts)).toBeLessThanOrEqual(15 * 1024);
  const whole = Buffer.byteLength(page) + [...sizes.values()].reduce((sum, size) => sum + size, 0);
  expect(whole).toBeLessThanOrEqual(60 * 1024);
});
