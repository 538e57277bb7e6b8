/** Every command on a terminal, with a server, files and names that contain terminal control sequences. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { invoke } from '../support/invoke.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolderNow } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

/**
 * Writes to the clipboard, overwrites the line before, and uses colour, C1 codes, text direction and invisible
 * characters.
 */
const hostile =
  'a\u001B]52;c;ZXZpbA==\u0007\u001B[1A\u001B[31mb\u009B2J\u0090q\u202Egpj.exe\u2066\u200Fc\rd\u0008\u007F\uFDD031\uFDD1e';
/** A file name cannot contain everything. */
const hostileName = `${hostile.replaceAll('/', '')}.csv`;

/** What must not reach a terminal, except our own styles and the cursor moves of a redrawn line. */
const escape = '\u001B';
const commanding = new RegExp(
  String.raw`[[\p{Cc}\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069\uFDD0-\uFDEF]--[\t\n\r${escape}]]|` +
    String.raw`${escape}(?!\[(?:0|1|2|22|3\d|9\d)m|\[[\d;]*[A-HJK]|\[\?25[lh])`,
  'v',
);
/** Sequences that are allowed elsewhere but here come only from the hostile text. */
const hostileParts = ['\u001B[31mb', '\u001B[1A\u001B', 'c\rd'];

let sandbox: Sandbox;
const place = temporaryFolderNow();
const folder = place.path;
let environment: Record<string, string>;
/** A server that refuses everything with hostile text. */
const refusing = createServer((request, response) => {
  response.statusCode = request.method === 'GET' ? 403 : 422;
  response.setHeader('content-type', 'application/json');
  response.end(JSON.stringify({ message: hostile, errors: { [hostile]: [hostile] } }));
});

beforeAll(async () => {
  sandbox = await openSandbox({ users: 4, packages: 2, emails: 3, coupons: 2, now: sandboxNow });
  const { control } = sandbox;
  const fields = { [hostile]: hostile, data: { [hostile]: hostile } };
  const names = { username: hostile, first_name: hostile, last_name: hostile, email: `${hostile}@example.com` };
  control.update('users', 1, { ...names, status: hostile, avatar: hostile, ...fields });
  control.update('packages', 1, { name: hostile, ...fields });
  control.update('emails', 1, { subject: hostile, content: hostile, ...fields });
  control.update('coupons', 1, { code: hostile, ...fields });
  control.setRelated('users', 1, 'orders', [{ id: 1, status: hostile, ...fields }]);
  await new Promise<void>((resolve) => refusing.listen(0, '127.0.0.1', resolve));
  environment = {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
  };
  const rows = `user_id,type,amount,${hostile.replaceAll('\r', '')}\n1,add,5,${hostile}\n2,${hostile},x,y\n`;
  writeFileSync(join(folder, hostileName), rows);
  writeFileSync(join(folder, 'good.csv'), `user_id,type,amount,description\n1,add,5,"${hostile}"\n`);
  mkdirSync(join(folder, 'config/reports'), { recursive: true });
  writeFileSync(
    join(folder, 'config/reports', 'odd.sql'),
    `-- title: ${hostile}\n-- ${hostile}\nSELECT '${hostile}' AS "${hostile}"\n`,
  );
  const jobs =
    'jobs:\n  - name: nightly\n    run: sync\n    cron: "15 2 * * *"\nresources:\n  users:\n    include: [orders]\n';
  writeFileSync(join(folder, 'config.yaml'), jobs);
  writeFileSync(
    join(folder, 'broken.yaml'),
    `"${JSON.stringify(hostile).slice(1, -1)}": 1\nhistory:\n  keep: "${JSON.stringify(hostile).slice(1, -1)}"\n`,
  );
  // Makes a mirror, a history and a batch to show.
  await invoke(['sync', '--config', 'config.yaml'], { folder, environment });
  control.update('users', 1, { first_name: `${hostile}2`, balance: 7 });
  await invoke(['sync', '--config', 'config.yaml'], { folder, environment });
  await invoke(['bulk', 'run', 'balance', 'good.csv', '--yes'], { folder, environment });
});

afterAll(async () => {
  await sandbox.close();
  await new Promise((resolve) => refusing.close(resolve));
  place.remove();
});

const bad = '--base-url';
/** Every command, with each of its ways to show foreign text. */
const cases: Readonly<Record<string, readonly (readonly string[])[]>> = {
  sync: [
    ['sync', '--verbose'],
    ['sync', hostile],
    ['sync', bad, 'refusing'],
  ],
  status: [['status']],
  verify: [
    ['verify', '--deep'],
    ['verify', bad, 'refusing'],
  ],
  backup: [['backup', hostile]],
  publish: [['publish']],
  restore: [['restore', hostile]],
  store: [['store', hostile]],
  audit: [['audit'], ['audit', '--person', hostile]],
  people: [
    ['people', 'list'],
    ['people', 'disable', hostile],
  ],
  serve: [['serve', '--listen', hostile]],
  forget: [
    ['forget', hostile],
    ['forget', '2', '--dry-run'],
  ],
  schedule: [
    ['schedule', '--list'],
    ['schedule', '--once', hostile],
  ],
  export: [
    ['export', 'users'],
    ['export', 'users', '--format', 'tsv'],
    ['export', 'users', '--format', 'jsonl'],
    ['export', 'emails', '--raw'],
    ['export', 'report:odd'],
    ['export', 'users', '-o', hostileName],
    ['export', hostile],
    ['export', 'users', '--where', hostile],
  ],
  query: [
    ['query', 'SELECT * FROM users'],
    ['query', 'SELECT * FROM users', '--format', 'csv'],
    ['query', 'SELECT first_name, id FROM users', '--chart'],
    ['query', `SELECT '${hostile}' AS "${hostile}"`, '--format', 'json'],
    ['query', 'SELECT * FROM user_orders_flat'],
    ['query', `SELECT ${hostile}`],
    ['query', `EXPLAIN QUERY PLAN SELECT "${hostile}" FROM users`],
  ],
  reports: [['reports'], ['reports', 'odd'], ['reports', hostile]],
  changes: [['changes'], ['changes', 'users', '--id', '1'], ['changes', '--since', hostile]],
  schema: [['schema'], ['schema', 'users'], ['schema', 'user_orders_flat'], ['schema', hostile]],
  snapshot: [['snapshot', hostileName]],
  sandbox: [
    ['sandbox', '--switches'],
    ['sandbox', '--behaviour', hostile],
  ],
  users: [
    ['users', 'list', '--include', 'orders'],
    ['users', 'list', '--all'],
    ['users', 'get', '1', '--with', 'orders'],
    ['users', 'update', '1', '--first-name', hostile],
    ['users', 'get', hostile],
    ['users', 'get', '1', bad, 'refusing'],
    ['users', 'update', '1', '--first-name', 'x', bad, 'refusing'],
    ['users', 'update-balance', '1', '--type', 'add', '--amount', '1', '--description', hostile, '--yes'],
  ],
  packages: [
    ['packages', 'list'],
    ['packages', hostile],
  ],
  emails: [['emails', 'list']],
  coupons: [
    ['coupons', 'list'],
    ['coupons', 'list', '--page', hostile],
  ],
  bulk: [
    ['bulk', 'plan', 'balance', hostileName],
    ['bulk', 'plan', 'balance', 'good.csv', '--again', '--reason', hostile],
    ['bulk', 'run', 'balance', 'good.csv', '--rehearse', '--again', '--reason', hostile],
    ['bulk', 'status'],
    ['bulk', 'status', 'last'],
    ['bulk', 'status', hostile],
    ['bulk', 'results', 'last', '-o', `${hostile}-results`],
    ['bulk', 'resume', 'last'],
    ['bulk', 'plan', 'balance', `no-${hostileName}`],
    ['bulk', 'template', hostile],
    ['bulk', 'select', 'balance', '--sql', `SELECT '${hostile}' AS "${hostile}"`, '-o', 'selected.csv'],
  ],
  init: [
    ['init', '--base-url', `https://${hostile}`, '--yes'],
    ['init', '--key-file', hostile, '--yes'],
  ],
  doctor: [['doctor'], ['doctor', '--config', 'broken.yaml'], ['doctor', bad, 'refusing']],
  config: [
    ['config', '--config', 'broken.yaml'],
    ['config', '--db', hostile],
  ],
  completions: [
    ['completions', 'bash'],
    ['completions', hostile],
  ],
  complete: [['complete', '--', 'export', hostile]],
};

describe('on a terminal', () => {
  test('every command is tested here, except the demo, which shows only its own data', () => {
    expect(Object.keys(cases).toSorted()).toEqual(
      commands
        .map(({ name }) => name)
        .filter((name) => name !== 'demo')
        .toSorted(),
    );
  });

  const all = Object.values(cases).flat();
  // proves: terminal
  test.each(
    sample(
      all.map(
        (argv) =>
          [
            argv
              .join(' ')
              .replaceAll(/[^ -~]/g, '?')
              .slice(0, 60),
            argv,
          ] as const,
      ),
      12,
    ),
  )('no foreign text can control it: %s', async (_, argv) => {
    const { port } = refusing.address() as AddressInfo;
    const given = argv.map((each) => (each === 'refusing' ? `http://127.0.0.1:${port}` : each));
    const config = argv.includes('--config') ? [] : ['--config', 'config.yaml'];
    for (const more of [[], ['--json']]) {
      // Ctrl+D, in case of a question.
      const options = { folder, environment, terminal: 200, input: '\u0004' };
      const { stdout, stderr } = await invoke([...given, ...config, ...more], options);
      for (const text of [stdout, stderr]) {
        expect(commanding.exec(text)).toBeNull();
        expect(hostileParts.filter((part) => text.includes(part))).toEqual([]);
      }
    }
  });

  test('JSON output stays valid and unchanged', async () => {
    const argv = ['query', 'SELECT first_name FROM users WHERE id = 1', '--json'];
    const { stdout } = await invoke(argv, { folder, environment, terminal: 200 });
    expect(JSON.parse(stdout)).toEqual([{ first_name: `${hostile}2` }]);
  });

  test('a program that reads the output gets every byte', async () => {
    const { stdout } = await invoke(['export', 'emails', '--columns', 'subject', '--raw'], { folder, environment });
    expect(stdout).toContain(hostile);
  });
});
