/** Checks that docs/proof.md has the figures of mutation testing, and that each surviving change has a reason. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder, sectionOf, tableRows, textOf } from '../support/documents.ts';

const rooms = JSON.parse(textOf('test/mutation/rooms.json')) as Readonly<Record<string, readonly string[]>>;
const left = JSON.parse(textOf('test/mutation/left.json')) as readonly {
  readonly file: string;
  readonly why: string;
}[];
const figures = tableRows(sectionOf('docs/proof.md', 'Mutation')).map(([file = '', ...counts]) => ({
  file: file.replaceAll('`', ''),
  counts: counts.map((count) => Number(count.replaceAll(',', ''))),
}));

test('the mutation table has every file, with as many changes left as have a reason', () => {
  expect(figures.slice(0, -1)).toEqual(
    Object.keys(rooms).map((file) => {
      const count = left.filter((each) => each.file === file && each.why !== '').length;
      const tried = figures.find((each) => each.file === file)?.counts[0] ?? 0;
      return { file, counts: [tried, tried - count, count] };
    }),
  );
  const sums = [0, 1, 2].map((at) => figures.slice(0, -1).reduce((sum, { counts }) => sum + (counts[at] ?? 0), 0));
  expect(figures.at(-1)?.counts).toEqual(sums);
});

test('every file of the mutation rooms exists', () => {
  const named = Object.entries(rooms).flat(2);
  expect(named.filter((name) => !existsSync(join(projectFolder, name)))).toEqual([]);
});
