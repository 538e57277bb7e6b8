// @module-tag full
/** Every page, saved report and export, as every role, over a mirror with unknown fields and all related records. */
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { roles } from '../../src/model/actor.ts';
import { relationTables, resourceNames, resources } from '../../src/model/resources.ts';
import { hourMs } from '../../src/model/time.ts';
import { exportFormats } from '../../src/data/formats.ts';
import { routes } from '../../src/web/routes.ts';
import { hostileWorld } from '../browser/world.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';

/** Keys of related and unknown records whose values say who somebody is. */
const tellingKey =
  /^(?:email|username|(?:first|last|full)_?name|company|phone|ip(?:_address)?|address\w*|user_agent|uuid)$/;

function tellingValues(value: unknown, key = ''): string[] {
  if (typeof value === 'string') return tellingKey.test(key) && value.length > 5 ? [value] : [];
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([name, each]) => tellingValues(each, Array.isArray(value) ? key : name));
}

async function world() {
  const opened = await hostileWorld({ sandbox: { users: 30, packages: 5, emails: 30, coupons: 5 } });
  const { sandbox, file } = opened;
  const { control } = sandbox;
  const everything = {
    users: resources.users.includes,
    packages: resources.packages.includes,
    emails: resources.emails.includes,
  };
  // The unknown fields come later, so the history has records without them and with them.
  control.setBehaviour({ unknown_fields: 1 });
  control.advanceClock(hourMs);
  await sync(sandbox, file, { includes: everything, mode: 'full', pageSize: 25 });
  const mirror = new SqliteDatabase(file, { readonly: true });
  const texts = (sql: string): string[] => mirror.prepare<[], string>(sql).pluck().all();
  const relations = texts(
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'view') AND name NOT LIKE 'sqlite%'",
  );
  const stored = [
    ...texts("SELECT _extra FROM users WHERE _extra <> '{}'"),
    ...relationTables
      .filter(({ resource }) => resource !== 'packages')
      .flatMap(({ table }) => texts(`SELECT record FROM "${table}"`)),
  ].map((json): unknown => JSON.parse(json));
  mirror.close();
  const served = [
    ...control.dump('users'),
    ...control.dump('emails').map(({ email, subject }) => ({ email, company: subject })),
  ];
  const values = [...new Set([...stored, ...served].flatMap((each) => tellingValues(each)))];
  return { ...opened, relations, values };
}

/** A value is a person's wherever it is not a part of a longer word. */
function seenIn(text: string, values: readonly string[]): string[] {
  return values.filter((value) => text.includes(value)).slice(0, 5);
}

describe('over a mirror with unknown fields and all related records', () => {
  test.for(roles)('every page responds to a %s, and shows no value of a person to a reader', async (role) => {
    const { browser, relations, values, samples, sandbox } = await world();
    expect(relations.filter((name) => name.endsWith('_flat')).length).toBe(relationTables.length);
    expect(values.length).toBeGreaterThan(100);
    const reports = await reportNames();
    const records = resourceNames.flatMap((name) =>
      [1, 2, Number(sandbox.control.dump(name).at(-1)?.['id'])].map((id) => `/data/${name}/${id}`),
    );
    const paths = routes
      .filter(({ method, path }) => method === 'GET' && !/events$|^\/sign-in\/oidc|^\/data.*download$/.test(path))
      .flatMap(({ path }) => {
        if (path === '/data/:relation/:id') return records;
        const [name, all] = path.startsWith('/data') ? ['relation', relations] : ['report', reports];
        // Whoever is no reader sees the same pictures and downloads.
        const each = role === 'reader' || !/picture|download/.test(path) ? all : all.slice(0, 1);
        return path.includes(`:${name}`) ? each.map((one) => path.replace(`:${name}`, one)) : [path];
      })
      .map((path) =>
        path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(samples[name as keyof typeof samples])),
      );
    const { get } = await browser(`only-${role}`, [role]);
    const failed: unknown[] = [];
    for (const path of paths) {
      const response = await get(path);
      const seen = seenIn(await response.text(), role === 'reader' ? values : []);
      if (response.status === 429 || response.status >= 500 || seen.length > 0)
        failed.push({ path, status: response.status, seen });
    }
    expect(failed).toEqual([]);
  });

  test('every table and view downloads masked, those with unknown fields in every format', async () => {
    const { browser, relations, values } = await world();
    const { get } = await browser('rita', ['reader']);
    const tried = [
      ...relations.map((name) => `/data/${name}/download?format=jsonl`),
      ...exportFormats.flatMap((format) => [
        `/data/users/download?show=id&show=_extra&format=${format}`,
        `/reports/balance-drift/download?format=${format}`,
      ]),
    ];
    const failed: unknown[] = [];
    for (const path of tried) {
      const response = await get(path);
      const seen = seenIn(await response.text().catch(String), values);
      if (response.status !== 200 || seen.length > 0) failed.push({ path, status: response.status, seen });
    }
    expect(failed).toEqual([]);
    // The names of unknown fields are shown, and what is about nobody.
    const extras = (await (await get('/data/users/download?show=_extra&format=jsonl')).text()).trim().split('\n');
    expect(extras[0]).toBe('{"_extra":{"uuid":"(masked)","meta":"(masked)"}}');
  });

  test('every export on the command line ends with 0, with --mask and without, and masks every value of a person', async () => {
    const { folder, relations, values } = await world();
    const failed: unknown[] = [];
    const names = [...relations, ...(await reportNames()).map((name) => `report:${name}`)];
    for (const name of names) {
      for (const flags of [['--mask'], []]) {
        const { code, stdout, stderr } = await invoke(
          ['export', name, '--meta', '--format', 'jsonl', ...flags].filter(
            (each) => !name.startsWith('report:') || each !== '--meta',
          ),
          { folder },
        );
        const seen = flags.length > 0 ? seenIn(stdout, values) : [];
        if (code !== 0 || seen.length > 0) failed.push({ name, flags, code, stderr, seen });
      }
    }
    expect(failed).toEqual([]);
  });
});

async function reportNames(): Promise<string[]> {
  const { stdout } = await invoke(['reports', '--json']);
  return (JSON.parse(stdout) as { readonly reports: readonly { readonly name: string }[] }).reports.map(
    ({ name }) => name,
  );
}
