// @module-tag full
/** The requests of a run, with the real engine over a list in memory. `npm run bench` prints the whole table. */
import { expect, onTestFinished, test } from 'vitest';
import { halving, leeway, openSimulation } from '../../bench/requests.ts';
import { secondMs } from '../../src/model/time.ts';
import { Random } from '../../src/sandbox/random.ts';

const users = 12_000;
const pageSize = 15;
const pages = users / pageSize;

async function filled() {
  const simulation = openSimulation(users, pageSize);
  onTestFinished(() => simulation.close());
  const first = await simulation.run({ mode: 'default' });
  expect(simulation.live()).toBe(users);
  await simulation.run();
  return { ...simulation, first };
}

test('a first sync keeps to its bound, and a quick one with nothing new takes twelve requests and the open window', async () => {
  const { run, first } = await filled();
  expect(first).toBeLessThanOrEqual(pages * 1.3 + 1_050);
  const openPages = Math.ceil(((users / 1_096) * 3) / pageSize);
  expect(await run()).toBeLessThanOrEqual(12 + openPages);
});

test('records of one second are read in one run, even though their only window exceeds the budget', async () => {
  const simulation = openSimulation(users, pageSize, secondMs);
  onTestFinished(() => simulation.close());
  const first = await simulation.run({ mode: 'default', requestsPerRun: 20 });
  expect(simulation.live()).toBe(users);
  expect(first).toBeLessThanOrEqual(pages * 1.3 + 20 + 50);
});

test('any number of deletions is found by halving', async () => {
  const { run, server, live } = await filled();
  const quiet = await run();
  let gone = 0;
  for (const deletions of [1, 5, 20, 100]) {
    server.remove(deletions, new Random(deletions));
    gone += deletions;
    expect((await run()) - quiet).toBeLessThanOrEqual(leeway * halving(deletions, pages));
    expect(live()).toBe(users - gone);
  }
});

test('a total that is too large is searched once, and hardly costs any requests from then on', async () => {
  const { run, server, live } = await filled();
  const quiet = await run();
  server.overcount(5, new Random(1));
  expect((await run()) - quiet).toBeLessThanOrEqual(leeway * halving(5, pages) + 5 * 2 * 21);
  expect((await run()) - quiet).toBeLessThanOrEqual(20);
  expect(live()).toBe(users);
});
