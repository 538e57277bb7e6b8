/** Windows are days as creation times are written. Ranges may mean other days, but no record may be missed between them. */
import { describe, expect, test } from 'vitest';
import { dayMs, minuteMs } from '../../src/model/time.ts';
import { resourceNames } from '../../src/model/resources.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { behindProxy, eachRecord, eachUser } from '../support/altering-proxy.ts';
import { expectMirrored, newMirror, sync } from '../support/mirror.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { verifyMirror } from '../support/verify.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { valuesOf } from '../support/rows.ts';

const shop = { users: 1_000, packages: 0, emails: 0, coupons: 0 } as const;

function shifted(time: string, minutes: number): string {
  return new Date(Date.parse(time) + minutes * minuteMs).toISOString().slice(0, 19);
}

const india = (time: string): string => `${shifted(time, 330)}+05:30`;
const california = (time: string): string => `${shifted(time, -480)}-08:00`;

/** Some nights. Each night the server writes times in its own form, and every user gets the language of the night. */
async function nights(sandbox: Sandbox, forms: readonly ((time: string) => string)[]) {
  const file = `${temporaryFolder()}/mirror.db`;
  let night = -1;
  const proxy = await behindProxy(
    sandbox,
    eachUser((user) => {
      user['created_at'] = forms[night]?.(String(user['created_at']));
      user['language'] = `n${night}`;
    }),
  );
  const ends: unknown[] = [];
  for (night = 0; night < forms.length; night += 1) {
    const { report } = await sync(proxy, file, { resources: ['users'], pageSize: 50, windowPages: 2 });
    sandbox.control.advanceClock(dayMs);
    const [old] = valuesOf(file, 'SELECT count(*) FROM users WHERE language <> ?', `n${night}`);
    const { status, live, deleted } = report.resources.users ?? {};
    ends.push({ status, live, deleted, old });
  }
  return ends;
}

const all = { status: 'complete', live: shop.users, deleted: 0, old: 0 };

describe('if ranges are days in UTC and creation times are written with an offset', () => {
  test.each([
    ['east', india, 'midnight'],
    ['west', california, 'day'],
  ] as const)('to the %s, every record is read', { tags: 'full' }, async (_, form, date_end) => {
    const sandbox = await startSandbox({ ...shop, behaviour: { date_end } });
    expect(await nights(sandbox, [form, form])).toEqual([all, all]);
  });

  test.each([
    ['east', india, 'day'],
    ['west', california, 'midnight'],
  ] as const)('to the %s from one night on, every record is updated', { tags: 'full' }, async (_, form, date_end) => {
    const sandbox = await startSandbox({ ...shop, behaviour: { date_end } });
    const asEver = (time: string): string => time;
    expect(await nights(sandbox, [asEver, form, form, asEver])).toEqual([all, all, all, all]);
  });
});

test('records of years with another offset are read by wider ranges', { tags: 'full' }, async () => {
  const sandbox = await startSandbox({ ...shop });
  const form = (time: string): string => (time < '2025' ? india(time) : time);
  expect(await nights(sandbox, [form, form])).toEqual([all, all]);
});

const upgrades = [
  ['seconds since 1970', (time: string) => Date.parse(time) / 1_000, /is 1\d{9}(\.\d+)?, not 2026-/],
  ['seconds since 1970 as text', (time: string) => String(Date.parse(time) / 1_000), /is "1\d{9}(\.\d+)?", not 2026-/],
  [
    'days before months',
    (time: string) => time.replace(/^(\d+)-(\d+)-(\d+)T/, '$3.$2.$1 '),
    /is "\d\d\.\d\d\.2026 .*", not 2026-/,
  ],
  ['nothing', () => undefined, /is null, not 2026-/],
] as const;

test.each(sample(upgrades, 2))(
  'a server that writes %s for each time after an upgrade is refused with the reason, and mirrored once it is accepted',
  async (_, form, words) => {
    const { sandbox, file } = await newMirror();
    let isUpgraded = false;
    const proxy = await behindProxy(
      sandbox,
      eachRecord((record) => {
        for (const [name, value] of Object.entries(record)) {
          if (isUpgraded && name.endsWith('_at') && typeof value === 'string') record[name] = form(value);
        }
      }),
    );
    await sync(proxy, file);
    isUpgraded = true;
    await expect(sync(proxy, file)).rejects.toMatchObject({ exitCode: 2, message: expect.stringMatching(words) });
    expectMirrored(sandbox, file);
    const { report } = await sync(proxy, file, { acceptNewServer: true });
    expect(report.resources).toMatchObject(
      Object.fromEntries(resourceNames.map((name) => [name, { status: 'complete', inserted: 0, deleted: 0 }])),
    );
    const lists = valuesOf(file, "SELECT DISTINCT resource FROM mirror_events WHERE subject = 'created_at' ORDER BY 1");
    expect(lists).toEqual(resourceNames.toSorted());
    // The old form again, which is now unknown to the mirror.
    isUpgraded = false;
    expect(await sync(proxy, file, { acceptNewServer: true })).toMatchObject({ error: null });
    expectMirrored(sandbox, file);
  },
);

describe.each([
  ['without a zone', (time: string): string => time.slice(0, 19).replace('T', ' ')],
  ['with an offset', india],
  ['without a zone, with a T', (time: string): string => time.slice(0, 19)],
])('times that are written %s', (_, form) => {
  async function mirrored() {
    const { sandbox, file } = await newMirror();
    const written = eachRecord((record) => (record['created_at'] = form(String(record['created_at']))));
    let server = sandbox;
    const proxy = await behindProxy(
      {
        ...sandbox,
        get url() {
          return server.url;
        },
      },
      written,
    );
    expect(await sync(proxy, file)).toMatchObject({ error: null });
    return { sandbox, proxy, file, putInPlace: (other: Sandbox) => (server = other) };
  }

  test('do not keep a deleted record in the mirror, or hide it from a comparison', async () => {
    const { sandbox, proxy, file } = await mirrored();
    sandbox.control.remove('users', 17);
    expect((await verifyMirror(proxy, file)).report.resources.users).toMatchObject({ status: 'different' });
    const { report } = await sync(proxy, file);
    expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 1 });
  });

  test('do not let another server take the place of the known one', async () => {
    const { sandbox, proxy, file, putInPlace } = await mirrored();
    putInPlace(await startSandbox({ seed: 8, key: sandbox.key }));
    await expect(sync(proxy, file)).rejects.toMatchObject({ name: 'OtherServerError' });
  });
});
