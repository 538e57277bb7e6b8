/** `demo`: shows the main job from beginning to end against the sandbox, with the commands that an operator would type. */
import type { Command } from 'commander';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { CliContext } from './context.ts';
import { paint, printLine, printLines } from './output.ts';
import { grouped } from '../model/text.ts';
import { type ExitCode, OperatorError } from '../model/errors.ts';
import { makeFolder } from '../model/files.ts';
import { settingTable } from '../settings/table.ts';
import { run } from './program.ts';
import { openSandbox, type Sandbox } from '../sandbox/sandbox.ts';

const size = { users: 1_000, packages: 40, emails: 3_000, coupons: 60, seed: 7 } as const;

const config = `# The settings of the demo. Its server is gone, so there is no address and no key here.
store:
  mirror: data/demo/mirror.db
  journal: data/demo/journal.db
jobs:
  - name: sync
    run: sync
    cron: "15 2 * * *"
    timezone: UTC
  - name: exports
    run: export
    all: true
    output: data/demo/exports
    format: parquet
    cron: "0 3 * * *"
    timezone: UTC
    after: sync
    require: complete
`;

/** One of the demo's commands failed, and printed why. */
class DemoStoppedError extends OperatorError {
  override readonly name = 'DemoStoppedError';
  override readonly exitCode: ExitCode;

  constructor(command: string, exitCode: ExitCode) {
    super(`the demo stopped, because its command "${command}" ended with exit code ${exitCode}`);
    this.exitCode = exitCode;
  }
}

export function define(program: Command, context: CliContext): void {
  program
    .command('demo')
    .description('Show the main job against an embedded server with seed data.')
    .action(() => demo(context));
}

async function demo(context: CliContext): Promise<void> {
  const folder = join(context.folder, 'data', 'demo');
  // Each demo starts from nothing. It touches only its own folder.
  rmSync(folder, { recursive: true, force: true });
  makeFolder(folder);
  heading(context, 'A server to work with');
  const sandbox = await openSandbox({ ...size, signal: context.signal });
  try {
    const { users, packages, emails, coupons } = size;
    printLines(context, [
      `The sandbox serves the whole Administration API at ${sandbox.url}, on this machine alone.`,
      `Its seed data: ${grouped(users)} users, ${packages} packages, ${grouped(emails)} emails, ${coupons} coupons.`,
    ]);
    const environment = environmentOf(context, sandbox, folder);
    await showMirror(context, environment, sandbox, folder);
    await showBulk(context, environment, sandbox, folder);
  } finally {
    await sandbox.close();
  }
  farewell(context, relative(context.folder, folder));
}

async function showMirror(
  context: CliContext,
  environment: CliContext['environment'],
  sandbox: Sandbox,
  folder: string,
): Promise<void> {
  const shell = (...words: string[]) => runShown(context, environment, 0, words);
  const place = relative(context.folder, folder);
  heading(context, 'The first sync reads everything');
  await shell('sync');

  const between = new Date().toISOString();
  heading(context, 'Then the server changes');
  printLine(context, changeServer(sandbox));

  heading(context, 'The second sync finds what is new, what changed and what is gone');
  await shell('sync');
  await shell('changes', '--since', between);
  await shell('status');

  heading(context, 'A comparison with the server, record for record, proves it');
  await shell('verify', '--deep');

  heading(context, 'An analyst queries the mirror, not the server');
  await shell('query', 'SELECT status, count(*) AS users, round(sum(balance), 2) AS balance FROM users GROUP BY 1');

  heading(context, 'A saved report, as a picture and as rows');
  await shell('export', 'report:signups-by-month', '--chart', join(place, 'signups.svg'));
  await shell('export', 'report:balance-liability');

  heading(context, 'Files for reporting');
  const columns = 'id,username,status,balance,created_at';
  await shell('export', 'users', '--columns', columns, '-o', join(place, 'users.csv'));
  await shell('export', 'emails', '--where', 'is_sent = 0', '--order', 'id', '-o', join(place, 'unsent-emails.csv'));
  await shell('export', 'coupons', '--format', 'jsonl', '-o', join(place, 'coupons.jsonl'));
  await shell('export', 'packages', '-o', join(place, 'packages.xlsx'));
  const first = readFileSync(join(folder, 'users.csv'), 'utf8').split('\n').slice(0, 4);
  printLines(context, [`\nThe first lines of ${join(place, 'users.csv')}:`, ...first.map((line) => `  ${line}`)]);

  heading(context, 'Every night, automatically');
  await shell('schedule', '--list');
}

const amounts = ['5.00', '5.00', '7.50', '5.00', '12.00', '5.00', '2.50', '5.00', '5.00', '30.00', '5.00', '5.00'];

async function showBulk(
  context: CliContext,
  environment: CliContext['environment'],
  { control }: Sandbox,
  folder: string,
): Promise<void> {
  // Everything goes to one stream, because the notes and errors of the commands are part of the story.
  const together = { ...context, stderr: context.stdout, constants: { log: { level: 'error' } } } as const;
  const shell = (endsWith: 0 | 2, ...words: string[]) => runShown(together, environment, endsWith, words);
  const place = relative(context.folder, folder);
  const file = join(place, 'credit.csv');
  const people = control.dump('users').slice(20, 20 + amounts.length);
  const rows = people.map(({ email }, at) => [email, 'add', amounts[at], 'Credit for the outage']);
  const lines = [['email', 'type', 'amount', 'description'], ...rows].map((cells) => `${cells.join(',')}\n`);
  writeFileSync(join(folder, 'credit.csv'), lines.join(''));

  heading(context, 'Finance credits a dozen people from a file');
  await shell(0, 'bulk', 'plan', 'balance', file);
  await shell(0, 'bulk', 'run', 'balance', file, '--yes');
  await shell(0, 'bulk', 'results', 'last', '-o', join(place, 'credit-results'));
  printLine(context, '\nThe same file again pays nobody:');
  await shell(2, 'bulk', 'run', 'balance', file, '--yes');
}

function changeServer({ control }: Sandbox): string {
  const [first, second, third] = control.dump('users');
  for (let count = 0; count < 5; count += 1) control.insert('users');
  if (first) control.update('users', Number(first['id']), { balance: 99.5 });
  if (second) control.update('users', Number(second['id']), { language: 'fr' });
  if (third) control.remove('users', Number(third['id']));
  const coupon = control.dump('coupons')[0];
  if (coupon) control.remove('coupons', Number(coupon['id']));
  return '5 users sign up, a balance becomes 99.5, a language becomes French, a user is deleted, a coupon is deleted.';
}

/** Returns the environment with the sandbox's address and key, and the demo's own files. */
function environmentOf(context: CliContext, sandbox: Sandbox, folder: string): CliContext['environment'] {
  const configFile = join(folder, 'admin-mirror.yaml');
  writeFileSync(configFile, config);
  // Settings in the user's environment must not reach the demo.
  const own = new Set<string>(settingTable.map(({ env }) => env));
  return {
    ...Object.fromEntries(Object.entries(context.environment).filter(([name]) => !own.has(name))),
    ADMIN_MIRROR_CONFIG: configFile,
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_DB: join(folder, 'mirror.db'),
    ADMIN_MIRROR_JOURNAL: join(folder, 'journal.db'),
    ...(context.color() ? {} : { NO_COLOR: '1' }),
  };
}

/** Runs a command as if it had been typed. Throws a DemoStoppedError if it ends with another exit code. */
async function runShown(
  context: CliContext,
  environment: CliContext['environment'],
  endsWith: ExitCode,
  words: readonly string[],
): Promise<void> {
  const shown = words.map((word) => (/^[\w./:,=-]+$/.test(word) ? word : JSON.stringify(word)));
  printLine(context, `\n${paint(context, 'bold', `$ npx admin-mirror ${shown.join(' ')}`)}`);
  const code = await run(words, { constants: { log: { level: 'warn' } }, ...context, environment });
  context.signal.throwIfAborted();
  if (code !== endsWith) throw new DemoStoppedError(String(words[0]), code);
}

function heading(context: CliContext, text: string): void {
  printLine(context, `\n${paint(context, 'bold', paint(context, 'cyan', text))}`);
}

function farewell(context: CliContext, place: string): void {
  heading(context, 'Done. What to try next');
  printLines(context, [
    'The console shows all of this in a browser. It prints a link where you create your account:',
    `  npx admin-mirror serve --config ${place}/admin-mirror.yaml`,
    `The mirror is ${place}/mirror.db. Open it with any SQLite tool, or query it here:`,
    `  npx admin-mirror query "SELECT * FROM mirror_freshness" --db ${place}/mirror.db`,
    `  npx admin-mirror schema users --db ${place}/mirror.db`,
    'A server to play with, which misbehaves as real ones do, in a second terminal:',
    '  npx admin-mirror sandbox --chaos rough',
    'Your own server:',
    '  export ADMIN_MIRROR_BASE_URL=https://… ADMIN_MIRROR_API_KEY_FILE=…',
    '  npx admin-mirror doctor && npx admin-mirror sync',
    'Everything else: README.md',
  ]);
}
