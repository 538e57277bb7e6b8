/** A console with data on every page: hostile names in the mirror, in a batch and in the accounts, and a failed run. */
import { type Role, roles } from '../../src/model/actor.ts';
import { hourMs } from '../../src/model/time.ts';
import { isAllowed, type Route } from '../../src/web/route.ts';
import { routes } from '../../src/web/routes.ts';
import { newUser } from '../support/bulk.ts';
import { startConsole } from '../support/console.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';
import { newAccount } from '../support/people.ts';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const run = 'globalThis.hostile = true';

/** Hostile texts in names. Each script would set a variable. */
export const hostileTexts = [
  `<script>${run}</script>`,
  `"><img src=x onerror="${run}">`,
  `' onmouseover='${run}' autofocus onfocus='${run}`,
  `</title></textarea></style><svg onload="${run}">`,
  `javascript:${run}`,
  `\${${run}} {{${run}}} <!--`,
  '=HYPERLINK("http://127.0.0.1:9/","win")',
  '\u202Egnp.exe\u202D \u200F\u2067right to left',
  `${'W'.repeat(5_000)}${'🙂'.repeat(2_500)}`,
  'Zalgo T̸̡̛͓o̶n̸y',
] as const;

export async function hostileWorld(address: Parameters<typeof startConsole>[0] = {}) {
  const console = await startConsole(address);
  const { sandbox, folder, file, people } = console;
  const { control } = sandbox;
  for (const [at, text] of hostileTexts.entries()) {
    control.insert('users', { username: text, admin_comment: text, email: `"${text.slice(0, 60)}"${at}@example.com` });
    control.insert('emails', { subject: text, email: text.slice(0, 200) });
    control.insert('coupons', { name: text.slice(0, 200), coupon: `${at}${text.slice(0, 30)}` });
  }
  const rows = hostileTexts.map(
    (text) => `${newUser(sandbox, 10)},add,5,${JSON.stringify(text.slice(0, 120)).replaceAll('\\"', '""')}\n`,
  );
  control.advanceClock(hourMs);
  const { report } = await sync(sandbox, file);
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  writeFileSync(join(folder, 'credit.csv'), `user_id,type,amount,description\n${rows.join('')}`);
  const sent = await invoke(['bulk', 'run', 'balance', 'credit.csv', '--yes', '--json'], { folder, environment });
  const { batch } = JSON.parse(sent.stdout) as { readonly batch: string };
  await people.add(newAccount('mallory', { osUsers: ['<img-src=x-onerror=hostile>', 'x'.repeat(64)] }));
  // A sheet with ambiguous amounts waits for a decision. The link for the first account exists until there is an admin.
  const held = roles.filter((each) => address.isFirst !== true || each !== 'admin');
  const everybody = await console.browser('everybody', held);
  const { upload } = everybody;
  const asked = await upload('/batches', { action: 'balance' }, 'credit.csv', 'user_id;type;amount\n1;add;7,50\n');
  const user = control.dump('users').at(-1)?.['id'];
  return {
    ...console,
    everybody,
    samples: {
      relation: 'users',
      report: 'signups-by-month',
      token: console.first?.path.split('/').at(-1) ?? 'used',
      name: 'mallory',
      run: report.run,
      batch,
      upload: asked.headers.get('location')?.split('/').at(-1) ?? 'none',
      row: '2',
      template: 'balance.csv',
      file: 'review.csv',
      id: String(user),
    },
  };
}

/** Every page of the route table. */
export const pages: readonly Route[] = routes.filter(({ method }) => method === 'GET');

/** Roles that may see all pages. */
export const everyRole: readonly Role[] = roles;

export function mayBeSeen({ access }: Route): boolean {
  return isAllowed(access, everyRole);
}
