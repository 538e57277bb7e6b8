/** Planning of a large file, the cost of the journal for each row compared with its disk syncs, and result files. */
import { closeSync, fsyncSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { writeResults } from '../src/bulk/results.ts';
import { tableWriter } from '../src/data/export.ts';
import { actorOf } from '../src/model/actor.ts';
import { systemClock, timestampOf } from '../src/model/time.ts';
import type { Journal, NewIntent } from '../src/journal/port.ts';
import { openJournal } from '../test/support/journal-file.ts';
import { number, row, text, workbookOf } from '../test/fixtures/sheets/make/workbook.ts';
import { measureCli, median, type Measured } from './process.ts';
import { startBenchSandbox } from './sandbox.ts';
import type { Row } from './table.ts';

const planRows = 100_000;
const journalRows = 500;
/** Before the first byte, after the response, after the look-up. */
const syncsARow = 2;

/** All figures of the bulk runner. `mirror` has as many users as the sandbox that this starts. */
export async function benchBulk(folder: string, mirror: string, users: number, pairs: number): Promise<Row[]> {
  return [
    ...(await benchPlan(folder, mirror, users, pairs)),
    await benchJournal(folder, pairs),
    await benchResults(folder, pairs),
  ];
}

function line(at: number, users: number): string {
  return `${((at * 7) % users) + 1},${at % 3 === 0 ? 'remove' : 'add'},${((at % 50_000) / 100 + 0.01).toFixed(2)},Credit of March ${at}`;
}

/** Plans against a mirror and a server, each with its own journal. */
async function benchPlan(folder: string, mirror: string, users: number, pairs: number): Promise<Row[]> {
  const lines = Array.from({ length: planRows }, (_, at) => line(at, users));
  const sandbox = await startBenchSandbox(users);
  const config = join(folder, 'no-bounds.yaml');
  writeFileSync(config, 'bulk:\n  max_row: off\n  max_rows: off\n  max_total: off\n  max_day: off\n');
  const rows: Row[] = [];
  try {
    for (const [format, bytes, goal] of [
      ['csv', `user_id,type,amount,description\n${lines.join('\n')}\n`, 6],
      ['xlsx', workbook(lines), 10],
    ] as const) {
      const file = join(folder, `credit.${format}`);
      writeFileSync(file, bytes);
      const tries: Measured[] = [];
      for (let pair = 0; pair < pairs; pair += 1) {
        const journal = join(folder, `plan-${format}-${pair}.db`);
        const own = ['--config', config, '--db', mirror, '--journal', journal];
        const args = ['bulk', 'plan', 'balance', file, '--quiet', ...own];
        tries.push(await measureCli(args, sandbox.environment));
      }
      rows.push(...planFigures(format, users, goal, tries));
    }
  } finally {
    sandbox.close();
  }
  return rows;
}

/** The same rows as a spreadsheet program writes them: amounts as numbers, texts in their cells. */
function workbook(lines: readonly string[]): Buffer {
  const rows = lines.map((each, at) => {
    const [user = '', type = '', amount = '', description = ''] = each.split(',');
    const place = at + 2;
    return row(
      place,
      number(`A${place}`, user),
      text(`B${place}`, type),
      number(`C${place}`, amount),
      text(`D${place}`, description),
    );
  });
  const head = row(1, text('A1', 'user_id'), text('B1', 'type'), text('C1', 'amount'), text('D1', 'description'));
  return workbookOf({ sheets: [{ name: 'credit', rows: [head, ...rows].join('') }] });
}

function planFigures(format: string, users: number, goal: number, tries: readonly Measured[]): Row[] {
  const seconds = median(tries.map((each) => each.cpuSeconds));
  const peak = median(tries.map((each) => each.peakMb));
  const what = `plan of ${planRows.toLocaleString('en')} rows of ${format}, ${users.toLocaleString('en')} users, processor time`;
  return [
    {
      what,
      floor: '',
      ours: `${seconds.toFixed(1)} s`,
      ratio: '',
      goal: `at most ${goal} s`,
      met: seconds <= goal,
    },
    {
      what: `peak memory of it (${format})`,
      floor: '',
      ours: `${peak.toFixed(0)} MB`,
      ratio: '',
      goal: 'at most 300 MB',
      met: peak <= 300,
    },
  ];
}

function* intents(count: number): Iterable<NewIntent> {
  for (let at = 0; at < count; at += 1) {
    const cells = line(at, count).split(',');
    yield {
      row: at + 2,
      state: 'planned',
      subject: `user:${at}`,
      user: at,
      key: null,
      token: `am:${String(at).padStart(12, 'a')}`,
      fingerprint: `balance user:${at} add 2.00`,
      plannedEmail: `user${at}@example.com`,
      plannedUsername: `user${at}`,
      parameters: { type: cells[1], amount: cells[2], description: cells[3], expected_balance: null },
      cells,
      plannedBefore: '10.00',
      plannedAfter: '12.00',
      problem: null,
      notes: [],
      undoOfRow: null,
    };
  }
}

async function filled(folder: string, name: string, count: number): Promise<Journal> {
  const journal = await openJournal(join(folder, `${name}.db`), actorOf(process.env));
  const server = { address: 'http://127.0.0.1', keyMark: 'abcd', owner: '1' };
  const texts = {
    batch: name,
    action: 'balance',
    title: 'credit',
    file: 'credit.csv',
    fileHash: name,
    hash: name,
    rowsDigest: name,
  };
  const lists = { columns: ['user_id', 'type', 'amount', 'description'], problems: [], warnings: [] };
  const rest = { fileBytes: 1, rows: count, net: '1.00', server, undoOf: null, againReason: null };
  await journal.addBatch({ ...texts, ...lists, ...rest }, intents(count));
  const now = timestampOf(Date.now());
  await journal.claim(name, { repeatsSince: now, daySince: now }, () => []);
  return journal;
}

/** Every step of a row that is sent, gets a response and is settled. */
async function sendRow(journal: Journal, batch: string, row: number): Promise<void> {
  const seenBefore = { found: true, balance: '10.00', shown: true, hits: 0, alike: 0, sets: 0, sum: '10.00' };
  const body = `{"type":"add","amount":2.00,"description":"Credit of March ${row} am:abcdefghijkl"}`;
  const sending = { sentAt: timestampOf(Date.now()), body, seenBefore, before: '10.00' };
  await journal.move({ batch, row, from: 'planned', to: 'sending', fields: sending });
  const answer = JSON.stringify({
    data: { id: row, email: 'somebody@example.com', balance: 12, text: 'x'.repeat(400) },
  });
  const answered = { answerKind: 'accepted', httpStatus: 200, answer } as const;
  await journal.move({ batch, row, from: 'sending', to: 'acknowledged', fields: answered });
  const verdict = { evidence: 'token', after: '12.00', problem: null } as const;
  // The verdict is recorded with the next row.
  const note = 'the transaction is there';
  journal.moveLater({ batch, row, from: 'acknowledged', to: 'applied', fields: verdict, note });
}

async function millisecondsARow(work: () => Promise<void> | void): Promise<number> {
  const startedAt = performance.now();
  await work();
  return (performance.now() - startedAt) / journalRows;
}

/** The floor writes and syncs a page of a file as often as a row needs it. */
async function benchJournal(folder: string, pairs: number): Promise<Row> {
  const ours: number[] = [];
  const floor: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    const name = `journal-${pair}`;
    const journal = await filled(folder, name, journalRows);
    const rows = Array.from({ length: journalRows }, (_, at) => at + 2);
    ours.push(
      await millisecondsARow(async () => {
        for (const row of rows) await sendRow(journal, name, row);
        await journal.flush();
      }),
    );
    await journal.close();
    const handle = openSync(join(folder, `syncs-${pair}`), 'w');
    const page = Buffer.alloc(4_096, 1);
    floor.push(
      await millisecondsARow(() => {
        for (let at = 0; at < journalRows * syncsARow; at += 1) {
          writeSync(handle, page);
          fsyncSync(handle);
        }
      }),
    );
    closeSync(handle);
  }
  const ratio = median(ours.map((each, at) => each / (floor[at] ?? Number.NaN)));
  const text = (values: readonly number[]): string => `${median(values).toFixed(2)} ms`;
  return {
    what: `journal, a row that is sent (floor: ${syncsARow} × write and fsync)`,
    floor: text(floor),
    ours: text(ours),
    ratio: `${ratio.toFixed(2)} ×`,
    goal: 'at most 3 ×',
    met: ratio <= 3,
  };
}

async function benchResults(folder: string, pairs: number): Promise<Row> {
  const journal = await filled(folder, 'results', planRows);
  const batch = await journal.batch('results');
  if (batch === undefined) throw new Error('the batch is not there');
  const seconds: number[] = [];
  for (let pair = 0; pair < pairs; pair += 1) {
    const startedAt = performance.now();
    const ports = { journal, clock: systemClock, signal: new AbortController().signal };
    await writeResults(
      ports,
      batch,
      join(folder, `results-${pair}`),
      tableWriter('csv', ports.signal, () => {}),
    );
    seconds.push((performance.now() - startedAt) / 1_000);
  }
  await journal.close();
  const took = median(seconds);
  return {
    what: `result files of ${planRows.toLocaleString('en')} rows`,
    floor: '',
    ours: `${took.toFixed(1)} s`,
    ratio: '',
    goal: 'at most 2 s',
    met: took <= 2,
  };
}
