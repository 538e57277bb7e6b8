/** The demo's credits from a file: a row that is wrong, an answer that is lost, and nobody paid twice. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { hourMs } from '../model/time.ts';
import type { Sandbox } from '../sandbox/sandbox.ts';
import type { CliContext } from './context.ts';

export interface BulkDemo {
  readonly context: CliContext;
  readonly sandbox: Sandbox;
  readonly folder: string;
  /** Runs a command that is to end with the code. */
  readonly shell: (endsWith: 0 | 2 | 8, ...words: string[]) => Promise<void>;
  /** The newest batch of the demo's journal. */
  readonly batch: () => Promise<string>;
  readonly say: (text: string) => void;
}

const header = 'email,type,amount,description\n';
const amounts = ['5.00', '5.00', '7.50', '5.00', '12.00', '5.00', '2.50', '5.00', '5.00', '30.00', '5.00', '5.00'];
/** As it is typed in half of Europe: no computer should guess what it means. */
const ambiguous = '12,00';

export async function showBulk({ context, sandbox, folder, shell, batch, say }: BulkDemo): Promise<void> {
  const place = relative(context.folder, folder);
  const file = join(place, 'credit.csv');
  const results = join(place, 'credit-results');
  const { control } = sandbox;
  const people = control.dump('users').slice(20, 20 + amounts.length);
  const rows = people.map(({ email }, at) => [email, 'add', amounts[at], 'Credit for the outage']);
  const write = (lines: readonly (readonly unknown[])[]): void =>
    writeFileSync(join(folder, 'credit.csv'), header + lines.map((cells) => `${cells.join(',')}\n`).join(''));

  say(`${file} has a dozen rows. In one, the amount was typed as ${ambiguous}:`);
  write(rows.map((cells) => cells.map((cell) => (cell === '12.00' ? `"${ambiguous}"` : cell))));
  await shell(2, 'bulk', 'plan', 'balance', file);

  say(
    '\nThe amount is corrected. On the way, the answer to one request is lost, and what it asked for is still to come:',
  );
  write(rows);
  control.setBehaviour({ late_commit_ms: hourMs });
  const unlucky = Number(people[7]?.['id']);
  control.faultNext({ fault: 'commit_late', match: { method: 'PUT', path: `/users/${unlucky}/update-balance` } });
  await shell(8, 'bulk', 'run', 'balance', file, '--yes');

  say(
    '\nEnds with 8: one outcome is not known, and nothing was sent a second time. A little later, the server is done.',
  );
  control.commitLate();
  const name = await batch();
  await shell(0, 'bulk', 'resume', name);

  await shell(0, 'bulk', 'results', name, '-o', results);
  say(`\nHow that row was settled, in ${results}/applied.csv: by the mark that its transaction carries.`);
  const [head, ...lines] = readFileSync(join(folder, 'credit-results/applied.csv'), 'utf8')
    // Without the byte order mark before the first of them.
    .trim()
    .split('\n');
  const settled = lines.find((line) => line.includes(String(people[7]?.['email'])));
  say(`  ${head}\n  ${settled}`);

  say('\nThe same file again pays nobody:');
  await shell(2, 'bulk', 'run', 'balance', file, '--yes');
}
