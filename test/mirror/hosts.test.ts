// @module-tag full
/** Hosts that deviate from the reference: compression, caches, and pages that they cannot make. */
import { describe, expect, onTestFinished, test } from 'vitest';
import { measureProfile } from '../../src/mirror/measure.ts';
import { addDays, type Day, systemClock } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync, testClient } from '../support/mirror.ts';
import { call } from '../sandbox/call.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';
import { rowsOf, valuesOf } from '../support/rows.ts';

describe('a mirror is equal to a server', () => {
  test.each(
    sample(
      [
        { compression: 'gzip' },
        { compression: 'br', byte_order_mark: true },
        { compression: 'deflate', data_as_object: true },
        { compression: 'deflate_raw' },
        { byte_order_mark: true, data_as_object: true },
      ] as const,
      2,
    ),
  )('whose bodies have %o', async (behaviour) => {
    const { sandbox, file } = await newMirror({ behaviour });
    expect((await sync(sandbox, file, { pageSize: 20 })).error).toBeNull();
    expectMirrored(sandbox, file);
  });

  test('that asks for every request to come back later, three times in a row', async () => {
    const behaviour = { read_error_503: 1, fault_streak: 3, retry_after_seconds: 0 };
    const { sandbox, file } = await newMirror({ behaviour });
    expect((await sync(sandbox, file, { pageSize: 20 })).error).toBeNull();
    expectMirrored(sandbox, file);
  });
});

const shop = { users: 700, packages: 10, emails: 450, coupons: 10 } as const;

function failed(sandbox: Sandbox): number {
  return sandbox.control.requests().recent.filter(({ status }) => status !== 200).length;
}

/** The recorded page size of the resource. */
function pageSizeOf(file: string, resource: string): number {
  const sql = "SELECT value ->> '$.pageSize' FROM mirror_capabilities WHERE resource = ?";
  return valuesOf<number>(file, sql, resource)[0] ?? 0;
}

interface StoredWindow {
  readonly from_day: string;
  readonly state: string;
  readonly server_total: number;
}

const windowsOf = (file: string) => rowsOf<StoredWindow>(file, 'SELECT * FROM mirror_windows');

const idsIn = (file: string, table: string) => valuesOf<number>(file, `SELECT id FROM "${table}" ORDER BY id`);

describe('a host that cannot make large pages', () => {
  test.each(
    sample(['error_500', 'error_502', 'html', 'truncated', 'reset_middle', 'empty_body', 'says_so'] as const, 1),
  )('and fails with %s is mirrored completely, with pages that it can make from then on', async (how) => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: { page_breaks_over: 200, page_breaks_how: how } });
    const { report, error } = await sync(sandbox, file);
    expect(error).toBeNull();
    expect(report.requests).toBeLessThan(120);
    expectMirrored(sandbox, file);
    const size = pageSizeOf(file, 'users');
    expect(size).toBeGreaterThan(100);
    expect(size).toBeLessThanOrEqual(200);
    sandbox.control.clearRequests();
    expect((await sync(sandbox, file, { mode: 'full' })).error).toBeNull();
    // Users and emails: whether it makes larger pages by now.
    expect(failed(sandbox)).toBeLessThanOrEqual(2);
  });

  test('and never responds is mirrored, too', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror({
      ...shop,
      behaviour: { page_breaks_over: 300, page_breaks_how: 'hang' },
    });
    expect((await sync(sandbox, file, { timeoutMs: 150, resources: ['users'] })).error).toBeNull();
    expectMirrored(sandbox, file, ['users']);
  });

  test('any more because its records grew is read in smaller pages from then on', async () => {
    const { sandbox, file } = await mirrored(shop, { resources: ['users'] });
    expect(pageSizeOf(file, 'users')).toBe(1_000);
    sandbox.control.setBehaviour({ page_breaks_over: 90 });
    sandbox.control.update('users', 5, { first_name: 'Ada' });
    const { error } = await sync(sandbox, file, { mode: 'full', resources: ['users'] });
    expect(error).toBeNull();
    expectMirrored(sandbox, file, ['users']);
    expect(pageSizeOf(file, 'users')).toBeLessThanOrEqual(90);
    expect(eventsOf(file, 'page_size_lowered')).toHaveLength(1);
  });

  test('any more gets the extra requests that smaller pages need, and no more', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror({ ...shop, users: 2_000 });
    const shape = { resources: ['users'], pageSize: 500, requestsPerRun: 20 } as const;
    await sync(sandbox, file, shape);
    sandbox.control.setBehaviour({ page_breaks_over: 30 });
    const { error, report } = await sync(sandbox, file, { ...shape, mode: 'full' });
    expect(error).toBeNull();
    const size = pageSizeOf(file, 'users');
    expect(report.requests).toBeLessThanOrEqual((2_000 / size) * 1.3 + 20 + 50);
    expect(report.requests).toBeGreaterThan((2_000 / 500) * 1.3 + 20 + 50);
  });

  test('because some records are large is read in pages that are small enough', { tags: 'full' }, async () => {
    const sandbox = await startSandbox({ ...shop, behaviour: { page_breaks_bytes: 300_000 } });
    for (const id of Array.from({ length: 60 }, (_, index) => 100 + index)) {
      sandbox.control.update('emails', id, { content: 'x'.repeat(20_000) });
    }
    const file = `${temporaryFolder()}/mirror.db`;
    const { error, report } = await sync(sandbox, file, { resources: ['emails'], pageSize: 100 });
    expect(error).toBeNull();
    expectMirrored(sandbox, file, ['emails']);
    expect(report.requests).toBeLessThan(200);
  });

  test('because its records are long is read in pages of up to 8 MiB', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror(shop);
    for (let id = 1; id <= shop.emails; id += 1) sandbox.control.update('emails', id, { content: 'x'.repeat(60_000) });
    const { error } = await sync(sandbox, file, { resources: ['emails'] });
    expect(error).toBeNull();
    expectMirrored(sandbox, file, ['emails']);
    expect(pageSizeOf(file, 'emails')).toBeGreaterThan(100);
    expect(pageSizeOf(file, 'emails')).toBeLessThan(8_388_608 / 60_000);
  });

  test.each([1, 3])('that fails only on its last page, of %i, keeps its page size', async (rest) => {
    const users = 200 + rest;
    const sandbox = await startSandbox({ ...shop, users });
    const proxy = await behindProxy(sandbox, ({ path }) =>
      /users\?.*paginate=100&page=3/.test(path) ? { status: 500, body: '{"message": "Server Error"}' } : {},
    );
    const file = `${temporaryFolder()}/mirror.db`;
    const { report } = await sync(proxy, file, { resources: ['users'], pageSize: 100 });
    expect(report.resources.users).toMatchObject({ status: 'complete', live: users });
    expect(pageSizeOf(file, 'users')).toBe(100);
    expect(eventsOf(file, 'page_size_lowered')).toEqual([]);
  });

  test('only for a moment keeps its page size', async () => {
    const { sandbox, file } = await newMirror(shop);
    // As many as the attempts of a read.
    for (let time = 0; time < 8; time += 1)
      sandbox.control.faultNext({ fault: 'error_500', match: { path: '/users' } });
    expect((await sync(sandbox, file, { resources: ['users'] })).error).toBeNull();
    expect(pageSizeOf(file, 'users')).toBe(1_000);
  });
});

describe('failures that have nothing to do with the size of a page', () => {
  const shape = { pageSize: 100, requestsPerRun: 400 } as const;
  const large = { ...shop, users: 3_000, emails: 2_000 };

  test('for a while leave the page size as it was, and later runs cost what they did before', async () => {
    const { sandbox, file } = await mirrored(large, shape);
    const plain = (await sync(sandbox, file, { ...shape, mode: 'full' })).report.requests;
    const bad = [{ read_error_500: 0.5 }, { read_error_500: 0.7 }, { read_html: 0.5 }, { read_truncated: 0.5 }];
    for (const behaviour of bad) {
      sandbox.control.setChaos('calm');
      sandbox.control.setBehaviour(behaviour);
      const { report } = await sync(sandbox, file, { ...shape, mode: 'full' });
      expect(report.requests).toBeLessThanOrEqual(1.3 * plain + 400 + 50);
    }
    sandbox.control.setChaos('calm');
    const { report, error } = await sync(sandbox, file, { ...shape, mode: 'full' });
    expect(error).toBeNull();
    expectMirrored(sandbox, file);
    expect(report.requests).toBeLessThanOrEqual(1.3 * plain);
    expect([pageSizeOf(file, 'users'), pageSizeOf(file, 'emails')]).toEqual([100, 100]);
  });

  test.each([
    ['page 3 of any size', /users\?.*page=3(?!\d)/],
    ['page 3 of one size', /users\?.*paginate=100&page=3(?!\d)/],
  ])('but %s are read around, within the bound of a run', async (_, path) => {
    const sandbox = await startSandbox({ ...shop, users: 3_000 });
    const proxy = await behindProxy(sandbox, (response) =>
      path.test(response.path) ? { status: 500, body: '{"message": "Server Error"}' } : {},
    );
    const file = `${temporaryFolder()}/mirror.db`;
    const tried = { ...shape, requestsPerRun: 20, resources: ['users'] } as const;
    for (let night = 0; night < 2; night += 1) {
      const { report, error } = await sync(proxy, file, { ...tried, mode: 'full' });
      expect(error).toBeNull();
      expect(report.requests).toBeLessThanOrEqual(1.3 * (30 + windowsOf(file).length) + 20 + 50);
      expect(pageSizeOf(file, 'users')).toBe(100);
    }
    expectMirrored(sandbox, file, ['users']);
    expect(eventsOf(file, 'page_size_lowered')).toEqual([]);
  });
});

describe('a page size that was lowered', () => {
  const shape = { resources: ['users'], mode: 'full' } as const;

  async function lowered() {
    const { sandbox, file } = await newMirror(shop);
    const plain = (await sync(sandbox, file, shape)).report.requests;
    sandbox.control.setBehaviour({ page_breaks_over: 40 });
    await sync(sandbox, file, shape);
    expect(pageSizeOf(file, 'users')).toBeLessThanOrEqual(40);
    return { sandbox, file, plain };
  }

  test('is measured again in the next run, once the host makes larger pages', async () => {
    const { sandbox, file, plain } = await lowered();
    sandbox.control.setBehaviour({ page_breaks_over: 0 });
    const { report, error } = await sync(sandbox, file, shape);
    expect(error).toBeNull();
    expect(report.requests).toBeLessThanOrEqual(plain + 8);
    expect(pageSizeOf(file, 'users')).toBe(1_000);
    expect((await sync(sandbox, file, shape)).report.requests).toBeLessThanOrEqual(plain);
  });

  test('costs one more request a run while the host does not make larger pages', async () => {
    const { sandbox, file } = await lowered();
    sandbox.control.clearRequests();
    expect((await sync(sandbox, file, shape)).error).toBeNull();
    expect(failed(sandbox)).toBe(1);
  });
});

describe('a host that makes smaller pages than requested', () => {
  test('further in leaves the window incomplete, with the reason, and takes no row', async () => {
    const sizeOf = (page: number, size: number): number => ((page - 1) * size < 100 ? size : 10);
    // One window, which cannot be cut.
    const sandbox = await startSandbox({ ...shop, behaviour: { date_ranges: 'ignored' } });
    let isSmaller = false;
    const proxy = await behindProxy(
      sandbox,
      () => ({}),
      (path) =>
        path.replace(/paginate=(\d+)&page=(\d+)/, (_whole, size, page) => {
          const served = isSmaller ? Math.min(Number(size), sizeOf(Number(page), Number(size))) : size;
          return `paginate=${served}&page=${page}`;
        }),
    );
    const file = `${temporaryFolder()}/mirror.db`;
    const shape = { pageSize: 50, windowPages: 6 };
    expect((await sync(proxy, file, shape)).report.status).toBe('complete');
    isSmaller = true;
    sandbox.control.remove('users', 100);
    const { report, error } = await sync(proxy, file, shape);
    expect(error?.exitCode).toBe(5);
    expect(report.resources.users).toMatchObject({
      status: 'partial',
      deleted: 0,
      problem: expect.stringMatching(/the page size changed from \d+ to \d+ while it was read/),
    });
    isSmaller = false;
    expect((await sync(proxy, file, shape)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
  });
});

describe('a record that makes each of its pages fail', () => {
  const bad = [17, 301, 302, 640];

  // proves: bad-record
  test('is the only one missing, and is named with its place and the words of the server', async () => {
    const { sandbox, file } = await newMirror({
      ...shop,
      behaviour: { poisoned: 'users:301', page_breaks_how: 'says_so' },
    });
    const { report, error } = await sync(sandbox, file, { pageSize: 100 });
    expect(error?.exitCode).toBe(5);
    expect(idsIn(file, 'users')).toEqual(sandbox.control.dump('users').flatMap(({ id }) => (id === 301 ? [] : [id])));
    expectMirrored(sandbox, file, ['packages', 'emails', 'coupons']);
    const [event, ...others] = eventsOf(file, 'unreadable_records');
    expect(others).toEqual([]);
    const place = Number(/number (\d+) of the list/.exec(event?.detail ?? '')?.[1]);
    expect(event?.detail).toMatch(
      new RegExp(`^1 record cannot be read, number .*: GET .*/users\\?paginate=1&page=${place}&.*: Be right back\\.`),
    );
    expect(report.resources.users).toMatchObject({
      status: 'partial',
      problem: expect.stringContaining('Be right back.'),
    });
    expect(report.resources.users?.problem).not.toMatch(/no range of days/);
    // The attempts of a read, one for a page that comes, and two for each halving and for the record itself.
    expect(failed(sandbox)).toBe(0);
    expect(report.requests).toBeLessThan(120);
  });

  test('costs a few requests, wherever it is, and is read as soon as it can be', { tags: 'full' }, async () => {
    const ordered = await startSandbox({ ...shop, behaviour: {} });
    const file = `${temporaryFolder()}/mirror.db`;
    await sync(ordered, file, { pageSize: 100, resources: ['users'] });
    const plain = (await sync(ordered, file, { pageSize: 100, mode: 'full', resources: ['users'] })).report.requests;
    ordered.control.setBehaviour({ poisoned: bad.map((id) => `users:${id}`).join(',') });
    ordered.control.update('users', 300, { first_name: 'Ada' });
    ordered.control.remove('users', 299);
    const { report, error } = await sync(ordered, file, { pageSize: 100, mode: 'full', resources: ['users'] });
    expect(error?.exitCode).toBe(5);
    // Records that were read before stay, and other changes are followed.
    expectMirrored(ordered, file, ['users']);
    expect(report.resources.users).toMatchObject({ updated: 1, deleted: 1, live: 699, status: 'partial' });
    expect(report.requests).toBeLessThan(plain + bad.length * (4 * Math.log2(100) + 10) + 10);
    ordered.control.setBehaviour({ poisoned: '' });
    ordered.control.update('users', 301, { first_name: 'Bob' });
    expect((await sync(ordered, file, { pageSize: 100, resources: ['users'] })).error).toBeNull();
    expectMirrored(ordered, file, ['users']);
  });

  test('is named in each run, for some requests, and keeps no other change away', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror(shop);
    const quick = { pageSize: 100, resources: ['users'], mode: 'quick' } as const;
    const later = async () => {
      sandbox.control.advanceClock(60 * 60_000);
      return sync(sandbox, file, quick);
    };
    await sync(sandbox, file, quick);
    const plain = (await later()).report.requests;
    sandbox.control.setBehaviour({ poisoned: 'users:301,users:302' });
    expect((await sync(sandbox, file, { ...quick, mode: 'full' })).error?.exitCode).toBe(5);
    for (let night = 0; night < 2; night += 1) {
      const { report, error } = await later();
      expect(report.requests).toBeLessThanOrEqual(plain + 60);
      expect([error?.exitCode, report.resources.users?.problem]).toEqual([
        5,
        expect.stringMatching(/2 records cannot be read/),
      ]);
    }
    sandbox.control.remove('users', 299);
    expect((await later()).report.resources.users).toMatchObject({ deleted: 1, live: 699, status: 'partial' });
    sandbox.control.setBehaviour({ poisoned: '' });
    sandbox.control.remove('users', 300);
    expect((await later()).error).toBeNull();
    expectMirrored(sandbox, file, ['users']);
  });

  test('does not affect the measured capabilities', { tags: 'full' }, async () => {
    const sandbox = await startSandbox(shop);
    const measuredBy = async (poisoned: readonly unknown[]) => {
      sandbox.control.setBehaviour({ poisoned: poisoned.map((id) => `users:${String(id)}`).join(',') });
      const client = testClient(sandbox);
      onTestFinished(() => client.close());
      const list = { client, resource: 'users', pageSize: 1_000, clock: systemClock } as const;
      const { clockAheadMs: _, ...measured } = await measureProfile(list);
      return measured;
    };
    const newest = sandbox.control
      .dump('users')
      .sort((a, b) => (String(a['created_at']) < String(b['created_at']) ? 1 : -1));
    const plain = await measuredBy([]);
    for (const bad of [newest.slice(0, 2), newest.slice(-2), newest.filter((_, index) => index % 50 === 7)]) {
      expect(await measuredBy(bad.map(({ id }) => id))).toEqual(plain);
    }
  });

  test.each(sample(['oldest', 'newest', 'only'], 1))('may be the %s one', async (which) => {
    const sandbox = await startSandbox({ ...shop, users: which === 'only' ? 1 : 40 });
    const byTime = sandbox.control
      .dump('users')
      .sort((a, b) => String(a['created_at']).localeCompare(String(b['created_at'])));
    const id = byTime.at(which === 'oldest' ? 0 : -1)?.['id'];
    sandbox.control.setBehaviour({ poisoned: `users:${String(id)}` });
    const file = `${temporaryFolder()}/mirror.db`;
    const { error } = await sync(sandbox, file, { pageSize: 10, resources: ['users', 'coupons'] });
    expect(error?.exitCode).toBe(5);
    expect(idsIn(file, 'users')).toEqual(
      sandbox.control.dump('users').flatMap((each) => (each['id'] === id ? [] : [each['id']])),
    );
  });

  test('and many neighbours like it cost no more than a bound', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror({ ...shop, users: 2_000 });
    sandbox.control.setBehaviour({
      poisoned: Array.from({ length: 900 }, (_, index) => `users:${500 + index}`).join(','),
    });
    const { report, error } = await sync(sandbox, file, { pageSize: 500, resources: ['users'] });
    expect(error?.exitCode).toBe(5);
    expect(report.requests).toBeLessThan(800);
    expect(idsIn(file, 'users').length).toBeGreaterThan(400);
  });
});

describe('a window that fails on every request', () => {
  test.each(['first', 'second'])('keeps its own reason in the %s run, and affects no other', async (run) => {
    const { sandbox, file } = await newMirror(shop);
    const shape = { resources: ['users'], pageSize: 20, windowPages: 3, mode: 'full' } as const;
    const { report: plain } = await sync(sandbox, file, shape);
    const [window] = windowsOf(file).filter(({ server_total: total }) => total > 20);
    const target = run === 'first' ? `${temporaryFolder()}/mirror.db` : file;
    sandbox.control.insert('users', { created_at: `${window?.from_day}T12:00:00.000000Z` });
    const path = new RegExp(`page=\\d+&.*date=${window?.from_day},`);
    sandbox.control.faultNext({ fault: 'error_502', times: 10_000, match: { path } });
    const { report, error } = await sync(sandbox, target, shape);
    expect(error?.exitCode).toBe(5);
    const { status, problem } = report.resources.users ?? {};
    expect(status).toBe('partial');
    expect(problem).toMatch(/^1 of \d+ windows of creation time are not settled: GET .*failed \(502\): Bad Gateway/);
    expect(problem).not.toMatch(/no range of days/);
    const unsettled = windowsOf(target).filter(({ state }) => state !== 'settled');
    expect(unsettled).toHaveLength(1);
    expect(report.requests).toBeLessThan(2 * plain.requests + 60);
  });
});

describe('windows that fail one after another', () => {
  const shape = { resources: ['users'], pageSize: 20, windowPages: 3, mode: 'full', concurrency: 1 } as const;

  test.each(sample(['error_502', 'html', 'reset_middle'] as const, 1))(
    'with %s do not stop the others while the server still gives its list',
    async (fault) => {
      const { sandbox, file } = await newMirror(shop);
      const { report: plain } = await sync(sandbox, file, shape);
      const days = windowsOf(file).slice(2, 8);
      // If the server's own days are not known exactly, a day more is requested.
      const paths = days.map(
        ({ from_day: day }) => new RegExp(`page=\\d+&.*date=(?:${day}|${addDays(day as Day, -1)}),`),
      );
      sandbox.control.faultNext(paths.map((path) => ({ fault, times: 10_000, match: { path } })));
      sandbox.control.update('users', 700, { balance: 77.25 });
      const { report, error } = await sync(sandbox, file, shape);
      expect(error?.exitCode).toBe(5);
      expect(report.resources.users).toMatchObject({ status: 'partial', updated: 1 });
      const unsettled = windowsOf(file).filter(({ state }) => state !== 'settled');
      expect(unsettled.map(({ from_day: day }) => day)).toEqual(days.map(({ from_day: day }) => day));
      expect(report.requests).toBeLessThan(plain.requests + days.length * 15);
    },
  );

  test('end the resource if the server gives nothing any more', async () => {
    const { sandbox, file } = await mirrored(shop, shape);
    let pages = 0;
    const onEvent = ({ kind }: { readonly kind: string }) => {
      pages += Number(kind === 'page');
      if (pages === 5) sandbox.control.setBehaviour({ read_html: 1 });
    };
    const { report, error } = await sync(sandbox, file, { ...shape, onEvent });
    expect(error?.exitCode).not.toBe(0);
    // Each of the few reads that show this is tried eight times.
    expect(report.requests).toBeLessThan(60);
  });
});

describe('a cache in front of the server', () => {
  const minutes = 60_000;
  const shape = { resources: ['users'], pageSize: 100, mode: 'full' } as const;

  test('is asked for fresh pages, and gives those', async () => {
    const { sandbox, file } = await mirrored({ ...shop, behaviour: { cache_seconds: 3_000 } }, shape);
    sandbox.control.advanceClock(10 * minutes);
    sandbox.control.update('users', 5, { balance: 77.25 });
    expect((await sync(sandbox, file, shape)).error).toBeNull();
    expectMirrored(sandbox, file, ['users']);
    expect(eventsOf(file, 'stale_page')).toEqual([]);
  });

  test('that gives old pages anyway makes nothing fresher than they are, and is reported', async () => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: { cache_seconds: 3_000, cache_obeys: false } });
    const first = await sync(sandbox, file, shape);
    const began = sandbox.control.now();
    sandbox.control.advanceClock(1 * minutes);
    sandbox.control.update('users', 5, { balance: 77.25 });
    sandbox.control.advanceClock(40 * minutes);
    const { report } = await sync(sandbox, file, shape);
    expect(first.report.resources.users?.status).toBe('complete');
    expect(Date.parse(report.resources.users?.fresh_as_of ?? '')).toBeLessThanOrEqual(began);
    expect(eventsOf(file, 'stale_page')).toMatchObject([{ detail: expect.stringMatching(/24\d\d s old/) }]);
  });

  test('that gives an older page after newer ones hides no record behind an equal total', async () => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: { cache_obeys: false } });
    const { control } = sandbox;
    await sync(sandbox, file, shape);
    await sync(sandbox, file, shape);
    const [front] = control.requests().recent.filter(({ url }) => /paginate=100&page=1&.*date=1000/.test(url));
    control.setBehaviour({ cache_seconds: 3_000 });
    await call(sandbox, front?.url ?? '');
    control.advanceClock(10 * minutes);
    const byTime = control.dump('users').sort((a, b) => String(a['created_at']).localeCompare(String(b['created_at'])));
    control.remove('users', Number(byTime[0]?.['id']));
    control.insert('users', {
      created_at: byTime.filter(({ created_at: at }) => String(at) < '2026-03-01').at(-1)?.['created_at'],
    });
    expect((await sync(sandbox, file, shape)).error).toBeNull();
    expectMirrored(sandbox, file, ['users']);
  });
});
