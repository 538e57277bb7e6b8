// @module-tag full
/** Every world is explored completely, and no invariant breaks. The numbers of states are in docs/proof.md. */
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, describe, expect, test } from 'vitest';
import { approvalModel } from './approvals.ts';
import { type Explored, explore, type Model } from './explore.ts';
import { approvalWorlds, guardCases, secondLines, secondLinesOfApproval, worlds } from './worlds.ts';
import { modelOf } from './world.ts';

const models: readonly Model<unknown>[] = [
  ...worlds.map((world) => modelOf(world) as Model<unknown>),
  ...approvalWorlds.map((world) => approvalModel(world) as Model<unknown>),
];
const explored: Explored[] = [];

// proves: paid-once
describe('every invariant of the money holds', () => {
  test.each(models)('$name', { timeout: 600_000 }, (model) => {
    const found = explore(model);
    explored.push(found);
    expect(found.violation).toBeNull();
  });

  afterAll(() => {
    const states = explored.reduce((sum, each) => sum + each.states, 0);
    const moves = explored.reduce((sum, each) => sum + each.moves, 0);
    process.stdout.write(`\n${explored.length} worlds, ${states} states, ${moves} moves\n`);
  });
});

test.skipIf(process.env['MODEL_BOUND'] !== undefined)(
  'docs/proof.md has the counted states (UPDATE_DOCS=1 writes them)',
  () => {
    const sum = (of: (each: Explored) => number) =>
      explored.reduce((total, each) => total + of(each), 0).toLocaleString('en-US');
    const counted = `${explored.length} worlds, ${sum(({ states }) => states)} states, ${sum(({ moves }) => moves)} moves`;
    const file = 'docs/proof.md';
    const text = readFileSync(file, 'utf8');
    const within = /(?<=<!-- states -->\n\nExplored: ).*(?=\.\n)/;
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(file, text.replace(within, counted));
    expect(within.exec(readFileSync(file, 'utf8'))?.[0]).toBe(counted);
  },
);

describe('nothing breaks if only this guard is removed, because another one backs it up', () => {
  const alone = secondLines.flatMap((guard) =>
    guardCases.flatMap(({ without, world }) => (without.includes(guard) ? [{ guard, world }] : [])),
  );
  test.each(alone)('$guard', ({ guard, world }) => {
    expect(explore(modelOf({ ...world, without: [guard] })).violation).toBeNull();
  });

  test.each(secondLinesOfApproval)('%s', (guard) => {
    for (const world of approvalWorlds) {
      expect(explore(approvalModel({ ...world, without: [guard] })).violation).toBeNull();
    }
  });
});
