/**
 * What a server may serve by malice or mistake. Each case ends soon as an event or a clear error, and nothing is lost
 * silently.
 */
import { describe, expect, test } from 'vitest';
import { invoke } from '../support/invoke.ts';
import { startOddServer } from '../support/odd-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

const time = '2026-01-05T10:00:00.000000Z';
const names = { username: 'u', first_name: 'A', last_name: 'B', created_at: time, updated_at: time };
/** The JSON of a user, with additional raw text. */
const user = (id: number, more = '') =>
  `${JSON.stringify({ id, email: `u${id}@example.com`, ...names }).slice(0, -1)}${more}}`;

/** Syncs five plain users and an odd one, and returns the outcome. */
async function syncOdd(odd: string | Buffer) {
  const { url } = await startOddServer([...[1, 2, 3, 4, 5].map((id) => user(id)), odd]);
  const folder = temporaryFolder();
  const environment = {
    ADMIN_MIRROR_BASE_URL: url,
    ADMIN_MIRROR_API_KEY: 'key-of-the-odd-server',
  };
  const before = process.cpuUsage();
  const { code, stdout, stderr } = await invoke(['sync', 'users', '--json', '--quiet'], {
    folder,
    environment,
    constants: { api: { attempts: 1 } },
  });
  const { user: ran, system } = process.cpuUsage(before);
  // The CPU time of this process, so that it is the same on a busy machine.
  const milliseconds = (ran + system) / 1_000;
  const ask = async (sql: string) => {
    const asked = await invoke(['query', sql, '--format', 'json'], { folder });
    return JSON.parse(asked.stdout) as Record<string, unknown>[];
  };
  const events = await ask('SELECT kind, subject, detail FROM mirror_events');
  return { code, stdout, stderr, milliseconds, events, ask };
}

describe('a record', () => {
  // proves: odd-records
  test('of 200,000 nested lists and objects is reported, and the others are stored', { tags: 'full' }, async () => {
    const more = `,"odd":${'{"a":['.repeat(100_000)}1${']}'.repeat(100_000)}`;
    const { code, stdout, stderr, milliseconds, ask } = await syncOdd(user(9, more));
    expect({ code, stderr }).toEqual({ code: 5, stderr: expect.not.stringContaining('bug') });
    expect(stdout).toContain('1,000 levels');
    expect(await ask('SELECT count(*) AS n FROM users')).toEqual([{ n: 5 }]);
    expect(milliseconds).toBeLessThan(30_000);
  });

  test.each(sample(['1e999', '-1e999999999', '1e-999', '123456789012345678901234567890.5'], 1))(
    'with a number that no double can hold keeps its text: %s',
    async (number) => {
      const { code, ask } = await syncOdd(user(9, `,"odd":${number}`));
      expect(code).toBe(0);
      expect(await ask("SELECT _extra ->> 'odd' AS odd FROM users WHERE id = 9")).toEqual([{ odd: number }]);
    },
  );

  test('with fields that have a meaning in JavaScript keeps and reports them', async () => {
    const fields = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    const { code, events, ask } = await syncOdd(user(9, fields.map((name) => `,"${name}":{"admin":true}`).join('')));
    expect(code).toBe(0);
    const subjects = events.filter(({ kind }) => kind === 'unknown_field').map(({ subject }) => subject);
    expect(new Set(subjects)).toEqual(new Set(fields));
    const [row] = await ask('SELECT _extra FROM users WHERE id = 9');
    for (const name of fields) expect(JSON.stringify(row)).toContain(name);
  });
});

describe('text', () => {
  test('that is not UTF-8 is stored as far as it can be read, and reported', async () => {
    const bytes = Buffer.concat([
      Buffer.from(user(9, ',"status":"a').slice(0, -1)),
      Buffer.of(0xff, 0xc3, 0x28),
      Buffer.from('b"}'),
    ]);
    const { code, events, ask } = await syncOdd(bytes);
    expect(code).toBe(0);
    expect(await ask('SELECT status FROM users WHERE id = 9')).toEqual([{ status: 'a\uFFFD\uFFFD(b' }]);
    expect(events.filter(({ kind }) => kind === 'unreadable_text').map(({ subject }) => subject)).toEqual(['status']);
  });
});
