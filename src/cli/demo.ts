/** `demo`: the main job from beginning to end, against the sandbox, by the very commands that an operator would type. */
import { mkdirSync, rmSync, statSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Command } from 'commander';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { CliContext } from './context.ts';
import { paint } from './output.ts';

const size = { users: 1_000, packages: 40, emails: 3_000, coupons: 60, seed: 7 } as const;

export function define(program: Command, context: CliContext): void {
  program
    .command('demo')
    .description('Show the main job against an embedded server with made-up data.')
    .action(() => demo(context));
}

async function demo(context: CliContext): Promise<void> {
  const folder = join(context.folder, 'data', 'demo');
  // Each demo starts from nothing; only its own folder is touched.
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });

  heading(context, 'A server to work with');
  const { openSandbox } = await import('../sandbox/sandbox.ts');
  const sandbox = await openSandbox({ ...size, signal: context.signal });
  try {
    say(context, `The sandbox is the Administration API itself, with made-up data, at ${sandbox.url}:`);
    say(context, `${size.users} users, ${size.packages} packages, ${size.emails} emails, ${size.coupons} coupons.`);
    await mainJob(context, sandbox, folder);
  } finally {
    await sandbox.close();
  }
  farewell(context, folder);
}

async function mainJob(context: CliContext, sandbox: Sandbox, folder: string): Promise<void> {
  const shell = shellOf(context, sandbox, folder);
  heading(context, 'The first sync reads everything');
  await shell('sync');

  heading(context, 'Then the server changes');
  const changed = changeServer(sandbox);
  say(context, `${changed.join(', ')}.`);

  heading(context, 'The second sync finds what is new, what changed and what is gone');
  await shell('sync');
  await shell('status');

  heading(context, 'An analyst asks the mirror, not the server');
  await shell(
    'query',
    'SELECT substr(created_at, 1, 7) AS month, count(*) AS signups, sum(email_verified_at IS NOT NULL) AS verified FROM users GROUP BY month ORDER BY month DESC LIMIT 6',
  );

  heading(context, 'Files for reporting');
  for (const [what, file, ...more] of [
    ['users', 'users.csv', '--columns', 'id,username,email,status,balance,created_at'],
    ['emails', 'unsent-emails.csv', '--where', 'is_sent = 0', '--order', 'scheduled_at'],
    ['coupons', 'coupons.jsonl', '--format', 'jsonl'],
  ] as const) {
    await shell('export', what, ...more, '-o', join(folder, file));
    say(context, `${relative(context.folder, join(folder, file))}: ${statSync(join(folder, file)).size} bytes`);
  }
}

/** Makes the changes that a day brings; says what they were. */
function changeServer({ control }: Sandbox): string[] {
  const [first, second, third] = control.dump('users');
  for (let count = 0; count < 5; count += 1) control.insert('users');
  if (first) control.update('users', Number(first['id']), { balance: 99.5 });
  if (second) control.update('users', Number(second['id']), { language: 'fr' });
  if (third) control.remove('users', Number(third['id']));
  const coupon = control.dump('coupons')[0];
  if (coupon) control.remove('coupons', Number(coupon['id']));
  return [
    '5 users sign up',
    'a balance becomes 99.5',
    'a language becomes French',
    'a user is deleted',
    'a coupon is deleted',
  ];
}

type Shell = (...words: string[]) => Promise<void>;

/** Runs a command as if it had been typed, with the sandbox's address and key in its environment. */
function shellOf(context: CliContext, sandbox: Sandbox, folder: string): Shell {
  const environment = {
    ...context.environment,
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
    ADMIN_MIRROR_DB: join(folder, 'mirror.db'),
    ADMIN_MIRROR_JOURNAL: join(folder, 'journal.db'),
    ADMIN_MIRROR_LOG_LEVEL: 'warn',
  };
  return async (...words) => {
    const { run } = await import('./program.ts');
    const shown = words.map((word) => (/^[\w./:,=-]+$/.test(word) ? word : JSON.stringify(word)));
    context.stdout.write(`\n${paint(context, 'bold', `$ admin-mirror ${shown.join(' ')}`)}\n`);
    const code = await run(words, { ...context, environment });
    context.signal.throwIfAborted();
    if (code !== 0) throw new Error(`the demo's command "${words[0]}" ended with exit code ${code}`);
  };
}

function heading(context: CliContext, text: string): void {
  context.stdout.write(`\n${paint(context, ['bold', 'cyan'], text)}\n`);
}

function say(context: CliContext, text: string): void {
  context.stdout.write(`${text}\n`);
}

function farewell(context: CliContext, folder: string): void {
  const place = relative(context.folder, folder);
  heading(context, 'Done. What to try next');
  say(context, `The mirror is ${place}/mirror.db: open it with any SQLite tool, or ask it here:`);
  say(context, `  npx admin-mirror query "SELECT * FROM mirror_freshness" --db ${place}/mirror.db`);
  say(context, `  npx admin-mirror schema users`);
  say(context, 'A server of your own that misbehaves, in a second terminal:');
  say(context, '  npx admin-mirror sandbox --chaos rough');
  say(context, 'Your own server:');
  say(context, '  export ADMIN_MIRROR_BASE_URL=https://… ADMIN_MIRROR_API_KEY_FILE=…');
  say(context, '  npx admin-mirror doctor && npx admin-mirror sync');
}
