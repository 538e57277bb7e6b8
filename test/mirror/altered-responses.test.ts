/** Altered responses, by a server or something in front of it: the run takes them in or says what is wrong. */
import { describe, expect, test } from 'vitest';
import { type Altered, behindProxy, eachUser, type Exchange } from '../support/altering-proxy.ts';
import { mirrored, sync } from '../support/mirror.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { verifyMirror } from '../support/verify.ts';
import { valuesOf } from '../support/rows.ts';

const shop = { users: 60, emails: 5, packages: 3, coupons: 3 } as const;

const forms = [
  ['null', () => null],
  ['a number of seconds', (time: string) => Date.parse(time) / 1_000],
  ['seconds as text', (time: string) => String(Date.parse(time) / 1_000)],
  ['another order of the day', (time: string) => time.replace(/^(\d+)-(\d+)-(\d+)/, '$3/$2/$1')],
  ['the zero date', () => '0000-00-00 00:00:00'],
  ['a year beyond all ranges', () => '9999-12-31T23:59:59.000000Z'],
] as const;

const cases = [
  ...forms.map(([name, form]) => [name, 'one record', (id: unknown) => id === 17, form] as const),
  // Without the last form: a server whose records all have another time would count as another server.
  ...forms.slice(0, -1).map(([name, form]) => [name, 'every record', () => true, form] as const),
];

describe('a creation time that becomes', () => {
  test.each(sample(cases, 3))('%s, of %s, hides no change from the mirror', async (_, __, isMeant, form) => {
    const { sandbox, file } = await mirrored(shop, { resources: ['users'] });
    const proxy = await behindProxy(
      sandbox,
      eachUser((user) => {
        if (isMeant(user['id'])) user['created_at'] = form(String(user['created_at']));
        user['language'] = 'xx';
      }),
    );
    for (const mode of ['default', 'full'] as const) {
      const { report } = await sync(proxy, file, { mode, resources: ['users'] });
      const { status, problem, deleted, live } = report.resources.users ?? {};
      expect({ deleted, live }).toEqual({ deleted: 0, live: 60 });
      // Either every row is up to date, or the run is not complete and says why.
      const isKnownProblem =
        /not settled: (the server sent records created|[\d,]+ records? (?:was|were) not shown)/.test(problem ?? '');
      const languages = valuesOf(file, 'SELECT DISTINCT language FROM users');
      expect(status === 'complete' ? languages : isKnownProblem).toEqual(status === 'complete' ? ['xx'] : true);
    }
  });
});

describe('a header that holds', () => {
  test('a time at the end of the calendar does not stop a sync', async () => {
    const { sandbox, file } = await mirrored(shop, { resources: ['users'] });
    const proxy = await behindProxy(sandbox, () => ({ headers: { date: 'Fri, 31 Dec 9999 23:59:59 GMT' } }));
    const { report } = await sync(proxy, file, { mode: 'full', resources: ['users'] });
    expect(report.resources.users).toMatchObject({ status: 'complete', live: 60 });
  });

  test.each([
    ['an impossible age', { age: '99999999999999999999' }],
    ['a time and an age that together lie beyond it', { date: 'Fri, 31 Dec 9999 23:59:59 GMT', age: '99999999' }],
  ])('%s proves nothing about rows that were read later, and takes none', async (_, headers) => {
    const { sandbox, file } = await mirrored(shop, { resources: ['users'] });
    const proxy = await behindProxy(sandbox, () => ({ headers }));
    const { report } = await sync(proxy, file, { mode: 'full', resources: ['users'] });
    expect(report.resources.users).toMatchObject({ status: 'partial', live: 60, deleted: 0 });
    expect(report.resources.users?.problem).toMatch(/a cache in front of the server gave pages up to .* s old/);
  });
});

describe('a comparison', () => {
  const verified = async (alter: (exchange: Exchange) => Altered) => {
    const { sandbox, file } = await mirrored(shop, { resources: ['users'], pageSize: 20 });
    const { report } = await verifyMirror(await behindProxy(sandbox, alter), file, {
      deep: true,
      resources: ['users'],
    });
    return report.resources.users;
  };
  const altered = (
    { path, body }: Exchange,
    alter: (list: { data: { id: number }[]; total: number }) => void,
  ): Altered => {
    if (!path.startsWith('/api/v1/users?')) return {};
    const list = JSON.parse(body) as { data: { id: number }[]; total: number };
    alter(list);
    return { body: JSON.stringify(list) };
  };

  test.each([true, false])(
    'does not call a record extra that the pages hide and the server still has (counted: %s)',
    async (counts) => {
      const verdict = await verified((exchange) =>
        altered(exchange, (list) => {
          const hidden = list.data.filter(({ id }) => id === 17);
          list.data = list.data.filter(({ id }) => id !== 17);
          if (!counts && (hidden.length > 0 || list.total > 50)) list.total -= 1;
        }),
      );
      expect(verdict).toMatchObject({ status: 'incomplete', extra: [] });
      expect(verdict?.problem).toMatch(
        /did not show 1 record of the mirror, and the server still has 17|counts 60 records/,
      );
    },
  );

  test('by counts is not equal if another server has the same counts', async () => {
    const { file } = await mirrored(shop, { resources: ['users'] });
    const other = await startSandbox({ ...shop, seed: 99 });
    const { report } = await verifyMirror(other, file, { deep: false, resources: ['users'] });
    const { users } = report.resources;
    expect(users?.status).toBe('incomplete');
    expect(users?.problem).toMatch(/none of the newest records/);
  });

  test('is not equal if two different records have the same id', async () => {
    const verdict = await verified((exchange) =>
      altered(exchange, ({ data }) => {
        const [first] = data;
        if (first !== undefined && data.every(({ id }) => id !== 17)) data.push({ ...first, id: 17 });
      }),
    );
    expect(verdict?.status).not.toBe('equal');
    expect(verdict?.problem).toMatch(/share an id/);
  });
});

test('half a surrogate pair anywhere in a response is kept as U+FFFD, and an event names where', async () => {
  const { sandbox, file } = await mirrored(shop, { resources: ['users'], includes: { users: ['payments'] } });
  const half = '"\\ud83d"';
  const proxy = await behindProxy(sandbox, ({ path, body }) => {
    if (!path.startsWith('/api/v1/users?')) return {};
    const list = JSON.parse(body) as { readonly data: Record<string, unknown>[] };
    const halves = {
      first_name: 'HALF',
      nickname: 'HALF',
      data: { note: 'HALF' },
      payments: [{ id: 'p', data: 'HALF' }],
    };
    for (const user of list.data) Object.assign(user, halves);
    return { body: JSON.stringify(list).replaceAll('"HALF"', half) };
  });
  await sync(proxy, file, { mode: 'full', resources: ['users'], includes: { users: ['payments'] } });
  const texts = valuesOf<string>(
    file,
    `SELECT first_name FROM users UNION ALL SELECT data FROM users UNION ALL SELECT _extra FROM users
     UNION ALL SELECT record FROM user_payments UNION ALL SELECT record FROM users_history`,
  );
  const subjects = valuesOf(file, "SELECT subject FROM mirror_events WHERE kind = 'unreadable_text' ORDER BY 1");
  expect(texts.length).toBeGreaterThan(200);
  expect(texts.filter((each) => /\\ud[89a-f]/i.test(each) || !each.isWellFormed())).toEqual([]);
  expect(texts).toContain('{"nickname":"�"}');
  expect(subjects).toEqual(['_extra', 'data', 'first_name', 'payments']);
});
