// @module-tag full
/** Kills `publish` anywhere: readers see the old or the new publication, never a mix, and the next run completes. */
import { expect, onTestFinished, test } from 'vitest';
import { hourMs } from '../../src/model/time.ts';
import { finished, startCli } from '../support/cli.ts';
import { mirroredFolder, sync } from '../support/mirror.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { checkIn, destinationIn, openCutter, publishTo, visibleIn } from '../support/publish.ts';

const includes = { users: ['orders'], emails: [] };

/** A mirror, a database, and `publish` over a connection on which it is killed after some bytes. */
async function world() {
  const { sandbox, folder, file } = await mirroredFolder({}, { includes });
  const database = await temporaryDatabase();
  const destination = destinationIn(database);
  const way = await openCutter(destination.address.port);
  const url = new URL(database.url);
  url.port = String(way.port);
  const environment = {
    ADMIN_MIRROR_PUBLISH_URL: url.href,
    ADMIN_MIRROR_PUBLISH_PASSWORD: database.password,
  };
  /** Returns whether it ended before that. */
  const publishKilled = async (bytes: number, ...flags: readonly string[]): Promise<boolean> => {
    const child = startCli(['publish', '--quiet', ...flags], { folder, environment });
    onTestFinished(() => void child.kill('SIGKILL'));
    way.cutAfter(bytes, () => child.kill('SIGKILL'));
    const { code, stderr } = await finished(child);
    if (child.signalCode === 'SIGKILL') return false;
    expect([code, stderr]).toEqual([0, '']);
    return true;
  };
  const state = async () => JSON.stringify(await visibleIn(database));
  /** Another night: the server changes and the mirror is synced. */
  const change = async (from: number) => {
    for (const id of [from, from + 1, from + 2]) sandbox.control.update('users', id, { first_name: `Another ${from}` });
    sandbox.control.remove('emails', from);
    sandbox.control.insert('coupons', { code: `NEW${from}` });
    sandbox.control.setRelated('users', from, 'orders', [{ id: from, domain: 'another.example' }]);
    sandbox.control.advanceClock(hourMs);
    await sync(sandbox, file, { includes, mode: 'full' });
  };
  return { file, database, destination, way, publishKilled, state, change };
}

/** Spread over all bytes, with another offset for each seed. */
const places = (bytes: number, kills: number, seed: number) =>
  Array.from({ length: kills }, (_, at) => Math.floor(((at + ((seed * 0.618) % 1)) * bytes) / kills));

const kills = 8;

/** Killed later and later, then run to the end; `between` is what readers saw apart from the old and the new state. */
async function killedOver(
  { file, destination, publishKilled, state }: Awaited<ReturnType<typeof world>>,
  bytes: number,
  seed: number,
) {
  const seen = [await state()];
  let killed = 0;
  for (const place of places(bytes, kills, seed)) {
    if (!(await publishKilled(place))) killed += 1;
    seen.push(await state());
  }
  await publishKilled(Number.POSITIVE_INFINITY);
  const last = await state();
  const between = seen.filter((each) => each !== seen[0] && each !== last);
  const { equal, waiting } = await checkIn(file, destination);
  return { isTried: killed > kills / 3, between, equal, waiting };
}

const whole = { isTried: true, between: [], equal: true, waiting: 0 };

test.each([1, 2])(
  'publish completes after kills anywhere, with everything and with changes only (%i)',
  async (seed) => {
    const made = await world();
    expect(await killedOver(made, 190_000, seed)).toEqual(whole);
    await made.change(3);
    await made.publishKilled(Number.POSITIVE_INFINITY);
    const bytes = made.way.bytes();
    await made.change(9);
    expect(await killedOver(made, bytes, seed)).toEqual(whole);
  },
);

test('publish completes after kills anywhere while it adds a missing column', async () => {
  const made = await world();
  await publishTo(made.file, made.destination);
  await made.database.query('ALTER TABLE mirror.users DROP COLUMN language');
  expect(await killedOver(made, 190_000, 3)).toEqual(whole);
});
