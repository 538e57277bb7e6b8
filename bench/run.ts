/**
 * Measures what the project promises of its speed, each figure beside a floor of the same run, prints the table and
 * writes bench/results.md. `npm run bench`, or `npm run bench -- --users 200000` for less.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchBulk } from './bulk.ts';
import { benchCertify } from './certify.ts';
import { benchConsole } from './console.ts';
import { benchCsv } from './csv.ts';
import { benchCursor } from './cursor.ts';
import { benchExportFormats } from './export-formats.ts';
import { benchFirstSync } from './first-sync.ts';
import { benchLargeRecords } from './large-records.ts';
import { benchNextSync, benchServerCost } from './next-sync.ts';
import { benchPublish } from './publish.ts';
import { benchRankProbes } from './rank-probes.ts';
import { benchReports } from './reports.ts';
import { benchRequests, requestsWords } from './requests.ts';
import { benchServers } from './servers.ts';
import { benchSnapshot } from './snapshot.ts';
import { benchStart } from './start.ts';
import { markdownTable } from './table.ts';

const { values } = parseArgs({
  options: { users: { type: 'string', default: '1000000' }, pairs: { type: 'string', default: '3' } },
});
const users = Number(values.users);
const pairs = Number(values.pairs);
const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-bench-'));
try {
  const start = benchStart();
  const { rows, mirror } = await benchFirstSync(folder, users, Math.round(users / 5), pairs);
  const reports = await benchReports(folder, users, pairs);
  const table = markdownTable([
    ...rows,
    ...(await benchLargeRecords(folder)),
    ...(await benchCursor(folder, users, pairs)),
    ...(await benchNextSync(folder, users, pairs)),
    ...(await benchCsv(folder, mirror, pairs)),
    ...(await benchExportFormats(folder, mirror, pairs)),
    ...(await benchCertify(folder, mirror, pairs)),
    ...(await benchSnapshot(folder, users, pairs)),
    ...(await benchPublish(folder, users, pairs)),
    ...(await benchConsole(users)),
    ...(await benchBulk(folder, mirror, users, pairs)),
    ...(await benchServers()),
    ...reports.rows,
    ...start,
    ...benchRankProbes(5),
  ]);
  const cost = await benchServerCost(
    folder,
    [10, 5, 2.5, 1.25].map((part) => Math.round(users / part)),
  );
  const requests = `## Requests\n\n${requestsWords}\n\n${await benchRequests(users, [15, 100, 1_000])}`;
  const slow = `## Reports that take longer than a second, and why\n\n${reports.slow}`;
  process.stdout.write(`${table}\n\n${slow}\n\n${cost}\n\n${requests}\n`);
  const [cpu] = cpus();
  const machine = `${cpus().length} × ${cpu?.model.trim() ?? 'unknown processor'}, Node ${process.versions.node}`;
  const head = `# What was measured\n\n${machine}; medians of ${pairs} runs, ours and the floor in turn. Made by \`npm run bench\`.\n`;
  const skipped =
    '## Rows that the server skips by OFFSET in a first sync\n\nOurs grow with the users, one walk over everything with their square.';
  writeFileSync(
    new URL('results.md', import.meta.url),
    `${head}\n${table}\n\n${slow}\n\n${skipped}\n\n${cost}\n\n${requests}\n`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
