/**
 * Measures what the project promises about its speed, compares each figure with a floor of the same run, prints it at
 * once and writes bench/results.md. Ends with 1 if a goal was missed. `npm run bench`; for less, `npm run bench:run -- --users 200000`, or only some
 * parts, which writes nothing: `npm run bench:run -- --only first-sync,csv`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchBulk } from './bulk.ts';
import { benchConsole } from './console.ts';
import { benchCsv } from './csv.ts';
import { benchExportFormats } from './export-formats.ts';
import { benchFirstSync } from './first-sync.ts';
import { benchLargeRecords } from './large-records.ts';
import { benchLatency } from './latency.ts';
import { benchNextSync, benchServerCost } from './next-sync.ts';
import { benchPublish } from './publish.ts';
import { benchReports } from './reports.ts';
import { benchRequests, requestsWords } from './requests.ts';
import { benchServers } from './servers.ts';
import { benchSnapshot } from './snapshot.ts';
import { benchStart } from './start.ts';
import { markdownTable, type Row } from './table.ts';

const { values } = parseArgs({
  options: {
    users: { type: 'string', default: '1000000' },
    pairs: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
  },
});
const users = Number(values.users);
const pairs = Number(values.pairs);
const only = values.only === '' ? [] : values.only.split(',');
/** The slow reports that no index can help. */
const slowReports: string[] = [];
const folder = mkdtempSync(join(tmpdir(), 'admin-mirror-bench-'));
try {
  const mirror = join(folder, 'mirror.db');
  /** In the order of the table; parts that read the mirror come after the part that makes it. */
  const parts: Readonly<Record<string, () => Row[] | Promise<Row[]>>> = {
    start: () => benchStart(folder),
    'first-sync': () => benchFirstSync(mirror, users, Math.round(users / 5), pairs),
    latency: () => benchLatency(folder, pairs),
    reports: async () => {
      const { rows, slow } = await benchReports(folder, users, pairs);
      slowReports.push(slow);
      return rows;
    },
    'large-records': () => benchLargeRecords(folder),
    'next-sync': () => benchNextSync(folder, users, pairs),
    csv: () => benchCsv(folder, mirror, pairs),
    'export-formats': () => benchExportFormats(folder, mirror, pairs),
    snapshot: () => benchSnapshot(folder, users, pairs),
    publish: () => benchPublish(folder, users, pairs),
    console: () => benchConsole(users),
    bulk: () => benchBulk(folder, mirror, users, pairs),
    servers: () => benchServers(),
  };
  const rows: Row[] = [];
  for (const [name, measureIt] of Object.entries(parts)) {
    if (only.length > 0 && !only.includes(name)) continue;
    const found = await measureIt();
    rows.push(...found);
    // At once: a later measurement may fail.
    process.stdout.write(`${markdownTable(found)}\n\n`);
  }
  if (only.includes('requests')) process.stdout.write(`${await requestsTable()}\n`);
  if (only.length === 0) await writeResults(rows);
  if (rows.some(({ met }) => !met)) process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Requests are counted, not timed: so this part needs no quiet machine. */
function requestsTable(): Promise<string> {
  return benchRequests(users, [15, 100, 1_000]);
}

async function writeResults(rows: readonly Row[]): Promise<void> {
  const sizes = [10, 5, 2.5, 1.25].map((part) => Math.round(users / part));
  const [cpu] = cpus();
  const machine = `${cpus().length} × ${cpu?.model.trim() ?? 'unknown processor'}, Node ${process.versions.node}`;
  const sections = [
    `# What was measured\n\n${machine}; medians of ${pairs} runs, ours and the floor in turn. Made by \`npm run bench\`.`,
    markdownTable(rows),
    `## Reports that take longer than a second, and why\n\n${slowReports.join('\n')}`,
    `## Rows that the server skips by OFFSET in a first sync\n\nOurs grow with the users, one walk over everything with their square.`,
    await benchServerCost(folder, sizes),
    `## Requests\n\n${requestsWords}\n\n${await requestsTable()}`,
  ];
  writeFileSync(new URL('results.md', import.meta.url), `${sections.join('\n\n')}\n`);
}
