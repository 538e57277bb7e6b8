/**
 * Measures what the project promises of its speed, each figure beside a floor of the same run, prints the table and
 * writes bench/results.md. `npm run bench`, or `npm run bench -- --users 200000` for less.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchCsv } from './csv.ts';
import { benchFirstSync } from './first-sync.ts';
import { benchStart } from './start.ts';
import { markdownTable } from './table.ts';

const { values } = parseArgs({
  options: { users: { type: 'string', default: '1000000' }, pairs: { type: 'string', default: '3' } },
});
const users = Number(values.users);
const pairs = Number(values.pairs);
const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-bench-'));
try {
  const start = await benchStart();
  const { rows, mirror } = await benchFirstSync(folder, users, Math.round(users / 5), pairs);
  const table = markdownTable([...rows, ...(await benchCsv(folder, mirror, pairs)), ...start]);
  process.stdout.write(`${table}\n`);
  const [cpu] = cpus();
  const machine = `${cpus().length} × ${cpu?.model.trim() ?? 'unknown processor'}, Node ${process.versions.node}`;
  const head = `# What was measured\n\n${machine}; medians of ${pairs} runs, ours and the floor in turn. Made by \`npm run bench\`.\n`;
  writeFileSync(new URL('results.md', import.meta.url), `${head}\n${table}\n`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
