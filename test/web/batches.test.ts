// @module-tag full
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';
import { parse } from 'csv-parse/sync';
import { describe, expect, test } from 'vitest';
import type { Manifest } from '../../src/bulk/results.ts';
import { type Clock, minuteMs, systemClock } from '../../src/model/time.ts';
import { hashPassword } from '../../src/people/sign-in.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { newUser } from '../support/bulk.ts';
import { csv, made } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';
import { operator, quickCost } from '../support/people.ts';
import { Planning } from '../../src/web/planning.ts';
import type { RunJob } from '../../src/worker/run-job.ts';
import { childWord } from '../../src/model/program.ts';
import { once } from 'node:events';

const password = 'correct horse battery staple';

interface Try {
  readonly behaviour?: Partial<Behaviour>;
  readonly config?: string;
  readonly environment?: Record<string, string>;
  readonly clock?: Clock;
}

type Console = Awaited<ReturnType<typeof startConsole>>;

async function office({ behaviour = {}, ...rest }: Try = {}) {
  const opened = await startConsole({ sandbox: { users: 5, emails: 5, behaviour, now: Date.now() }, ...rest });
  const clerk = await opened.browser('carla', ['maker']);
  return { ...opened, clerk };
}

type Browser = Awaited<ReturnType<Console['browser']>>;

/** The text of a page without its markup. */
async function read(response: Response): Promise<string> {
  const main = (await response.text()).replace(/^.*<main/s, '').replace(/<\/main>.*$/s, '');
  return main
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll('&quot;', '"')
    .replaceAll('&amp;', '&')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll(/\s+/g, ' ');
}

/** The address that the form redirects to: the page of the batch. */
async function ledTo(response: Response): Promise<string> {
  const place = response.headers.get('location');
  if (response.status !== 303 || place === null) throw new Error(`${response.status}: ${await read(response)}`);
  return place;
}

const balance = { action: 'balance', sheet: '', again: '' };

const plan = async ({ upload }: Browser, rows: string, name = 'credit.csv'): Promise<string> =>
  ledTo(await upload('/batches', balance, name, csv + rows));

/** The page after the sending has ended, polled as a browser without scripts would do. */
async function whenEnded({ get }: Browser, place: string): Promise<string> {
  for (;;) {
    const text = await read(await get(place));
    if (!text.includes('It is being sent')) return text;
    await setTimeout(10);
  }
}

async function send(browser: Browser, place: string, typed: string): Promise<string> {
  await ledTo(await browser.post(`${place}/send`, { typed }));
  return whenEnded(browser, place);
}

const usersOf = ({ sandbox }: Pick<Console, 'sandbox'>, count: number): number[] =>
  Array.from({ length: count }, () => newUser(sandbox, 10));

const balanceOf = ({ sandbox }: Pick<Console, 'sandbox'>, user: number): unknown =>
  sandbox.control.get('users', user)?.['balance'];

describe('a finance clerk', () => {
  test('is warned of words that programs write for an empty cell, before anything is sent', async () => {
    const world = await office();
    const { clerk } = world;
    const rows = usersOf(world, 2).map((user) => `${user},add,1,NULL\n`);
    const text = await read(await clerk.get(await plan(clerk, rows.join(''))));
    expect(text).toContain('description: 2 cells say NULL or the like, first in row 2.');
    expect(text).toContain('To send 2 rows');
  });

  test('is asked about an ambiguous amount, and the sheet is removed afterwards', async () => {
    const world = await office();
    const { clerk, folder } = world;
    const [a] = usersOf(world, 1);
    const sheet = `user_id;type;amount;description\n${a};add;7,50;x\n`;
    const question = await ledTo(await clerk.upload('/batches', balance, 'credit.csv', sheet));
    expect(await read(await clerk.get(question))).toContain(
      'The amount of row 2 in credit.csv is "7,50". What is that?',
    );
    expect(readdirSync(`${folder}/data/uploads`)).toHaveLength(1);
    const place = await ledTo(await clerk.post(question, { mark: 'comma' }));
    expect(await read(await clerk.get(place))).toContain('net total of 7.50');
    expect(readdirSync(`${folder}/data/uploads`)).toEqual([]);
    const again = await ledTo(await clerk.upload('/batches', balance, 'credit.csv', sheet));
    const eve = await world.browser('eve', ['maker']);
    expect((await eve.get(again)).status).toBe(404);
    const none = await clerk.post(again, { mark: 'none' });
    expect(await read(none)).toContain('Write amounts as plain numbers');
    expect((await clerk.get(again)).status).toBe(404);
  });

  test.each([
    ['credit.ods', 'x', 'In LibreOffice'],
    ['credit.pdf', 'x', 'its name does not end in .csv, .tsv, .xlsx or .jsonl'],
    ['credit.xlsx', 'PK no workbook', 'credit.xlsx cannot be read'],
    ['credit.csv', '', 'credit.csv'],
  ])('reads why %s is not a sheet, with its own name and in words for a browser', async (name, bytes, why) => {
    const { clerk, folder } = await office();
    const refused = await clerk.upload('/batches', balance, name, bytes);
    const text = await read(refused);
    expect([refused.status, text]).toEqual([422, expect.stringContaining(why)]);
    expect(text).not.toMatch(/uploads\/|admin-mirror bulk| --[a-z]/);
    expect(readdirSync(`${folder}/data/uploads`)).toEqual([]);
  });

  test('reads why a sheet cannot be stored; a disk error is not reported as a bug', async () => {
    const { clerk, folder } = await office();
    rmSync(`${folder}/data/uploads`, { recursive: true });
    writeFileSync(`${folder}/data/uploads`, '');
    const refused = await clerk.upload('/batches', balance, 'credit.csv', `${csv}1,add,5,x\n`);
    const why = /could not keep the sheet in \S+uploads: /;
    expect([refused.status, await read(refused)]).toEqual([503, expect.stringMatching(why)]);
  });

  test('gets an error if no file was chosen (the browser then sends a file without a name)', async () => {
    const { clerk } = await office();
    const lines = ['name="action"', '', 'balance', '--x', 'Content-Disposition: form-data; name="file"; filename=""'];
    const empty = ['--x', `Content-Disposition: form-data; ${lines.join('\r\n')}`, '', '', '--x--', ''].join('\r\n');
    const type = { 'content-type': 'multipart/form-data; boundary=x' };
    const refused = await clerk.post('/batches', empty, type);
    expect([refused.status, await read(refused)]).toEqual([422, expect.stringContaining('no file in the form')]);
  });

  test('cannot upload a sheet that is too large', async () => {
    const { clerk, folder } = await office();
    const refused = await clerk.upload(
      '/batches',
      balance,
      'credit.csv',
      new Uint8Array(50 * 1024 * 1024 + 1).fill(10),
    );
    expect([refused.status, await read(refused)]).toEqual([422, expect.stringContaining('larger than 50 MB')]);
    expect(readdirSync(`${folder}/data/uploads`)).toEqual([]);
  });

  test('cannot send the same sheet twice without giving a reason', async () => {
    const world = await office();
    const { clerk, sandbox } = world;
    const [a] = usersOf(world, 1);
    const row = `${a},add,5,Bonus\n`;
    await send(clerk, await plan(clerk, row), '5');
    const refused = await clerk.upload('/batches', balance, 'credit.csv', csv + row);
    const text = await read(refused);
    expect([refused.status, text]).toEqual([422, expect.stringContaining('this change was sent before')]);
    expect(text).toContain('To send it again on purpose, give the reason');
    const words = { ...balance, again: 'the bonus of April' };
    const place = await ledTo(await clerk.upload('/batches', words, 'credit.csv', csv + row));
    expect(await send(clerk, place, '5')).toContain('the bonus of April');
    expect(made(sandbox)).toBe(2);
  });

  test('finds a batch on the page of its user; an analyst sees it without a link', async () => {
    const { clerk, browser } = await office();
    const place = await plan(clerk, '1,add,5,x\n');
    expect(await (await clerk.get('/data/users/1')).text()).toContain(`href="${place}"`);
    const analyst = await (await (await browser('ana', ['analyst'])).get('/data/users/1')).text();
    expect(analyst).toContain('data-name="Batch">credit</td>');
    expect(analyst).not.toContain(`href="${place}"`);
  });

  test('settles a lost response by saying what was seen, resumes the batch, and undoes it', async () => {
    const world = await office({ behaviour: { description_max: 9 } });
    const { clerk, sandbox } = world;
    const [a, b, c] = usersOf(world, 3);
    const place = await plan(clerk, `${a},add,2,x\n${b},add,3,y\n${c},add,4,z\n`);
    // The description is so long that the mark is cut off, so the lost payment cannot be found by its mark.
    sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT', path: `/users/${b}/` } });
    const lost = await send(clerk, place, '9');
    expect(lost).toContain('Do not send it by other means.');
    const row = `${place}/rows/3`;
    expect(await read(await clerk.get(row))).toContain('Say here what you saw and how you know.');
    sandbox.control.advanceClock(11 * minuteMs);
    await ledTo(await clerk.post(`${place}/resume`));
    expect(await whenEnded(clerk, place)).toContain('1 unknown');
    const empty = await clerk.post(`${row}/resolve`, { outcome: 'applied', reason: ' ' });
    expect([empty.status, await read(empty)]).toEqual([422, expect.stringContaining('a reason is needed')]);
    await ledTo(await clerk.post(`${row}/resolve`, { outcome: 'applied', reason: 'seen in the panel' }));
    expect(await read(await clerk.get(place))).toContain('✓ done');
    expect(await read(await clerk.get(row))).toContain('a person decided: seen in the panel');
    expect(made(sandbox)).toBe(3);
    const manifest = (await (await clerk.get(`${place}/files/manifest.json`)).json()) as Manifest;
    expect(manifest).toMatchObject({ counts: { applied: 3 }, applied_net: '9.00', sent_by: [{ account: 'carla' }] });
    for (const { file: name, sha256, bytes } of manifest.files) {
      const file = Buffer.from(await (await clerk.get(`${place}/files/${name}`)).arrayBuffer());
      expect([name, file.length, createHash('sha256').update(file).digest('hex')]).toEqual([name, bytes, sha256]);
    }
    const receipt = await (await clerk.get(`${place}/files/receipt.html`)).text();
    expect(receipt).toContain('<h1>Receipt: credit</h1>');
    expect(receipt).not.toContain('is not done');
    const back = await ledTo(await clerk.post(`${place}/undo`));
    expect(await read(await clerk.get(back))).toContain('net total of -9.00');
    await send(clerk, back, '-9');
    expect([a, b, c].map((user) => Number(balanceOf(world, user ?? 0)))).toEqual([10, 10, 10]);
    const twice = await clerk.post(`${place}/undo`);
    expect([twice.status, await read(twice)]).toEqual([422, expect.stringContaining('nothing of batch')]);
  });

  test('discards a plan with a reason, and the plan then waits for nobody', async () => {
    const world = await office({ config: 'bulk:\n  approval:\n    balance: {}\n' });
    const { clerk, sandbox, browser, people } = world;
    await browser('bea', ['approver']);
    await people.setPassword('bea', await hashPassword(password, quickCost));
    const bea = await browser('bea', []);
    const place = await plan(clerk, `${usersOf(world, 1)[0]},add,5,x\n`);
    await ledTo(await clerk.post(`${place}/submit`));
    expect(await read(await bea.get('/'))).toContain('to be approved');
    expect(await read(await bea.get(place))).not.toContain('Discard');
    expect((await bea.post(`${place}/discard`, { why: 'x' })).status).toBe(403);
    const refused = await clerk.post(`${place}/discard`, { why: ' ' });
    expect([refused.status, await read(refused)]).toEqual([422, expect.stringMatching(/a reason is needed Say why\./)]);
    await ledTo(await clerk.post(`${place}/discard`, { why: 'the wrong month' }));
    const text = await read(await clerk.get(place));
    expect(text).toContain('· discarded');
    expect(text).toContain('Discarded by account carla');
    expect(text).toContain('a person discarded it: the wrong month');
    expect(text).not.toMatch(/waits|missing|Applied net|Discard this|Compare it/);
    for (const who of [bea, clerk]) expect(await read(await who.get('/'))).not.toContain('wait for you');
    const second = await clerk.post(`${place}/discard`, { why: 'again' });
    expect([second.status, await read(second)]).toEqual([422, expect.stringContaining('no row that is still to be')]);
    expect(await read(await bea.post(`${place}/approve`, { hash: 'x', password }))).toContain(
      'nothing left to approve',
    );
    const sent = await clerk.post(`${place}/send`, { typed: '5' });
    expect([sent.status, await read(sent), made(sandbox)]).toEqual([422, expect.stringContaining('was discarded'), 0]);
  });

  test('can send a row again that was not applied, after giving a reason', async () => {
    const world = await office();
    const { clerk, sandbox } = world;
    const [a, b] = usersOf(world, 2);
    const place = await plan(clerk, `${a},add,2,x\n${b},add,3,y\n`);
    sandbox.control.faultNext({ fault: 'lost', match: { method: 'PUT', path: `/users/${b}/` } });
    await send(clerk, place, '5');
    sandbox.control.advanceClock(11 * minuteMs);
    await ledTo(await clerk.post(`${place}/resume`));
    expect(await whenEnded(clerk, place)).toContain('✗ done, not all');
    expect(await read(await clerk.get(`${place}/rows/2`))).toContain('✓ applied · done: its mark is on the server');
    expect(await read(await clerk.get(`${place}/rows/3`))).toContain(
      '✗ not applied · sent, and not done: its mark is not on the server',
    );
    await ledTo(await clerk.post(`${place}/rows/3/resolve`, { outcome: 'resend', reason: 'asked the support' }));
    await ledTo(await clerk.post(`${place}/resume`));
    expect(await whenEnded(clerk, place)).toContain('✓ done');
    expect(made(sandbox)).toBe(2);
  });

  test('shows which row holds back others, and closes it, so that these are sent', async () => {
    const world = await office();
    const { clerk, sandbox } = world;
    const [a, b] = usersOf(world, 2);
    const place = await plan(clerk, `${a},add,2,x\n${b},add,3,y\n${b},add,4,z\n`);
    sandbox.control.faultNext({ fault: 'lost', match: { method: 'PUT', path: `/users/${b}/` } });
    await send(clerk, place, '9');
    sandbox.control.advanceClock(11 * minuteMs);
    await ledTo(await clerk.post(`${place}/resume`));
    const stopped = await whenEnded(clerk, place);
    expect(stopped).toContain('Rows that hold others back');
    expect(stopped).toContain('Next: decide about the rows that hold others back, then press “Go on”');
    expect(stopped).toContain('First decide about 1 row that holds others back');
    expect(await read(await clerk.get(`${place}/rows/3`))).toContain(
      '1 later row of this user waits until you decide.',
    );
    const said = { outcome: 'not_applied', reason: 'not owed any more' };
    await ledTo(await clerk.post(`${place}/rows/3/resolve`, said));
    expect(await read(await clerk.get(place))).not.toContain('Rows that hold others back');
    await ledTo(await clerk.post(`${place}/resume`));
    expect(await whenEnded(clerk, place)).toContain('✗ done, not all');
    expect(made(sandbox)).toBe(2);
  });
});

/** The page of the run after it has ended. */
async function ranAt({ get }: Browser, response: Response): Promise<string> {
  const place = await ledTo(response);
  await (await get(`${place}/events`)).text();
  return read(await get(place));
}

/** The child processes that plan sheets for this process. */
function planners(): number[] {
  const mine = readdirSync('/proc/self/task').flatMap((thread) =>
    readFileSync(`/proc/self/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  );
  return mine.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8').match(new RegExp(`${childWord}|bulk plan`)) !== null;
    } catch {
      return false;
    }
  });
}

/** The process that plans the sheet, stopped until it gets SIGCONT. */
async function heldPlanner(): Promise<number> {
  for (;;) {
    const [pid] = planners();
    if (pid !== undefined) {
      process.kill(pid, 'SIGSTOP');
      return pid;
    }
    await setTimeout(5);
  }
}

describe.skipIf(process.platform !== 'linux')('a sheet (Linux: /proc)', () => {
  const large = (user = 0): string => csv + `${user},add,0.01,one of many that are alike\n`.repeat(600);
  const uploadsIn = ({ folder }: Console): string[] => readdirSync(`${folder}/data/uploads`);

  test('is planned in its own process while other pages load, and the batch belongs to its uploader', async () => {
    const world = await office();
    const { clerk } = world;
    const [a] = usersOf(world, 1);
    const sending = clerk.upload('/batches', balance, 'many.csv', large(a));
    const planner = await heldPlanner();
    expect((await clerk.get('/batches')).status).toBe(200);
    process.kill(planner, 'SIGCONT');
    const text = await read(await clerk.get(await ledTo(await sending)));
    expect(text).toContain('net total of 6.00');
    expect(text).toContain('Planned by account carla');
    expect(text).toContain('does the same as row 2');
    expect([planners(), uploadsIn(world)]).toEqual([[], []]);
  });

  test('that never ends holds up only the sheets of the account that sent it, however small it is', async () => {
    const world = await office();
    const { clerk, browser } = world;
    const [a] = usersOf(world, 1);
    const gone = new AbortController();
    const small = `${csv}${a},add,1,x\n`;
    const stuck = clerk.upload('/batches', balance, 'hostile.csv', small, gone.signal).catch(String);
    const planner = await heldPlanner();
    // The account's next sheets wait in its own line, however many there are.
    const next = Array.from({ length: 5 }, () => clerk.upload('/batches', balance, 'next.csv', small));
    const dora = await browser('dora', ['maker']);
    const place = await ledTo(await dora.upload('/batches', balance, 'many.csv', large(a)));
    expect(await read(await dora.get(place))).toContain('Planned by account dora');
    expect(planners()).toEqual([planner]);
    gone.abort();
    await stuck;
    for (const each of await Promise.all(next)) expect(each.status).toBe(303);
  });

  test('that takes longer than it may is refused, with what to do', async () => {
    const run: RunJob = async (_, __, signal) => {
      await once(signal, 'abort');
      return { exitCode: null, report: null, problem: 'it was ended by SIGKILL', failure: null };
    };
    const planning = new Planning({ run, given: { plain: {} }, limitMs: 1 });
    const call = { path: ['bulk', 'plan'], operands: ['balance', 'hostile.csv'], options: {} };
    await expect(planning.plan(call, operator, AbortSignal.any([]))).rejects.toMatchObject({
      message: 'checking the sheet took 1ms, which is the limit',
      advice: 'Nothing was planned. Split the sheet into smaller files.',
    });
  });

  test.each([
    ['the browser disconnects', (browser: AbortController) => browser.abort()],
    ['the system kills the process', (_: AbortController, planner: number) => process.kill(planner, 'SIGKILL')],
    ['the console stops', (_: AbortController, __: number, world: Console) => world.close()],
  ])('leaves nothing behind if %s', async (_, happens) => {
    const world = await office();
    const gone = new AbortController();
    const sending = world.clerk
      .upload('/batches', balance, 'many.csv', large(usersOf(world, 1)[0]), gone.signal)
      .then(read, () => '');
    await happens(gone, await heldPlanner(), world);
    const told = await sending;
    while (planners().length > 0 || uploadsIn(world).length > 0) await setTimeout(5);
    await world.restart();
    expect(await read(await world.clerk.get('/batches'))).toContain('There are no batches yet.');
    expect(told).toMatch(/^$|ended before it was done \(it was ended by SIGKILL\)|stopping|SIGTERM/);
  });
});

describe('a comparison of the journal with the server', () => {
  test('shows what differs, and adopts rows that the journal lacks, as the account that asked', async () => {
    // The command that the console starts goes by this clock, too.
    const world = await office({ clock: systemClock });
    const { clerk, sandbox, browser } = world;
    const [a, b] = usersOf(world, 2);
    expect(await read(await clerk.get('/batches/compare'))).toContain('about 1 request.');
    const sent = await plan(clerk, `${a},add,5,x\n`);
    await send(clerk, sent, '5');
    // As if another journal had sent it.
    const token = String(sandbox.control.ledger()[0]?.body['description']).split(' ').at(-1) ?? '';
    const description = `y ${token.slice(0, 3)}${token.slice(3).split('').reverse().join('')}`;
    await fetch(`${sandbox.url}/api/v1/users/${b}/update-balance`, {
      method: 'PUT',
      headers: { authorization: `Bearer ${sandbox.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ type: 'add', amount: 3, description }),
    });
    const behind = await ranAt(clerk, await clerk.post('/batches/compare'));
    expect(behind).toContain('✗ different 1 row of');
    const olga = await browser('olga', ['operator']);
    expect((await olga.post('/batches/adopt')).status).toBe(403);
    const adopted = await ranAt(clerk, await clerk.post('/batches/adopt'));
    expect(adopted).toContain('1 row that it did not know is in batch');
    expect(await read(await clerk.get('/batches'))).toContain('✓ done');
    expect(made(sandbox)).toBe(2);
  });
});

describe('a batch that is being sent', () => {
  test('streams its progress as events until its end, stops on request, and can be resumed', async () => {
    const world = await office({ behaviour: { latency: 20 } });
    const { clerk, sandbox } = world;
    const place = await plan(
      clerk,
      usersOf(world, 12)
        .map((user) => `${user},add,1,x\n`)
        .join(''),
    );
    // Only the second event can estimate the time left.
    sandbox.control.setBehaviour({ latency: 200 });
    await ledTo(await clerk.post(`${place}/send`, { typed: '12' }));
    const events = await clerk.get(`${place}/events`);
    let said = '';
    for await (const chunk of events.body ?? []) {
      said += Buffer.from(chunk).toString();
      if (!said.includes(' left.') || sandbox.control.behaviour().latency === 0) continue;
      await ledTo(await clerk.post(`${place}/stop`));
      sandbox.control.setBehaviour({ latency: 0 });
    }
    expect(said).toMatch(/"rows":"\d+","words":"About \d+ (?:s|min) left\."/);
    expect(said).toMatch(/^retry: \d+\n\ndata: \{.*"done":true\}\n\n$/s);
    expect(await whenEnded(clerk, place)).toContain('It stopped before its end');
    expect(made(sandbox)).toBeLessThan(12);
    await ledTo(await clerk.post(`${place}/resume`));
    const ended = await whenEnded(clerk, place);
    expect(ended).toContain('✓ done');
    // The person who typed the total confirmed it; no approval was needed.
    expect(ended).toContain('Confirmed by account carla');
    expect(ended).not.toContain('Approved by');
    expect(made(sandbox)).toBe(12);
  });

  test('stops safely with the console, and the next console shows that and can resume it', async () => {
    const world = await office({ behaviour: { latency: 20 } });
    const { clerk, sandbox, restart } = world;
    const place = await plan(
      clerk,
      usersOf(world, 12)
        .map((user) => `${user},add,1,x\n`)
        .join(''),
    );
    await ledTo(await clerk.post(`${place}/send`, { typed: '12' }));
    while (made(sandbox) < 3) await setTimeout(5);
    await restart();
    const sent = made(sandbox);
    expect(sent).toBeLessThan(12);
    const text = await read(await clerk.get(place));
    expect(text).toContain('It stopped before its end');
    expect(text).not.toMatch(/\d unknown/);
    expect(await read(await clerk.get('/'))).toContain('These batches wait for you');
    await ledTo(await clerk.post(`${place}/resume`));
    await whenEnded(clerk, place);
    expect(made(sandbox)).toBe(12);
  });
});

describe('an approver', () => {
  const config = 'bulk:\n  approval:\n    balance:\n      net: 4\n';

  test('approves with a password what another person made; it cannot be sent before', async () => {
    const world = await office({ config });
    const { clerk, sandbox, browser, people } = world;
    const boss = await browser('bea', ['maker', 'approver']);
    await people.setPassword('bea', await hashPassword(password, quickCost));
    const again = await browser('bea', []);
    const [a] = usersOf(world, 1);
    const place = await plan(clerk, `${a},add,5,x\n`);
    expect((await clerk.post(`${place}/send`, { typed: '5' })).status).toBe(422);
    await ledTo(await clerk.post(`${place}/submit`, { note: 'as agreed' }));
    expect((await clerk.post(`${place}/approve`, { password })).status).toBe(403);
    expect(await read(await again.get('/'))).toContain('to be approved');
    const text = await (await again.get(place)).text();
    const hash = /name="hash" value="(\w+)"/.exec(text)?.[1] ?? '';
    const guessed = await again.post(`${place}/approve`, { hash, password: 'wrong' });
    expect([guessed.status, made(sandbox)]).toEqual([422, 0]);
    await ledTo(await again.post(`${place}/approve`, { hash, password }));
    expect(await read(await clerk.get('/batches'))).toContain('to be sent');
    expect(await send(clerk, place, '5')).toContain('✓ done');
    const own = await plan(boss, `${a},add,6,x\n`).catch(() => '');
    expect(own).toBe('');
    const mine = await plan(again, `${a},add,6,x\n`);
    await ledTo(await again.post(`${mine}/submit`));
    const self = await again.post(`${mine}/approve`, { hash, password });
    expect([self.status, made(sandbox)]).toEqual([422, 1]);
  });
});

test('a hostile cell, name and file name is shown as text on every page and in every sheet', async () => {
  const world = await office();
  const { clerk, sandbox } = world;
  const hostile = `<script>alert(1)'"&\u{202e}`;
  const [a] = usersOf(world, 1);
  sandbox.control.update('users', a ?? 0, { username: hostile });
  const row = `${a},add,1,"<img src=x onerror=alert(1)>"\n${a},add,=1+1,"=HYPERLINK(""http://evil"")"\n`;
  const place = await plan(clerk, row, `${hostile.replaceAll('"', '')}.csv`);
  for (const [path, escaped] of [
    [place, '&lt;script&gt;alert(1)'],
    ['/batches', '&lt;script&gt;alert(1)'],
    ['/', '&lt;script&gt;alert(1)'],
    [`${place}/rows/2`, '&lt;img src=x onerror=alert(1)&gt;'],
  ] as const) {
    const text = await (await clerk.get(path)).text();
    expect(text).not.toMatch(/<script>|<img/);
    expect(text).toContain(escaped);
  }
  const wrong = parse(await (await clerk.get(`${place}/files/wrong.csv`)).text(), { bom: true });
  for (const cell of wrong.flat()) expect(cell).not.toMatch(/^[=+@]/);
});
