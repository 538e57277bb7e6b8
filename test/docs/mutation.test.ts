/** Checks that the files of mutation testing exist, and that each change that no test noticed has a reason. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder, textOf } from '../support/documents.ts';

const rooms = JSON.parse(textOf('test/mutation/rooms.json')) as Readonly<Record<string, readonly string[]>>;
type Reasons = Readonly<Record<string, string>>;
const left = JSON.parse(textOf('test/mutation/left.json')) as Readonly<
  Record<string, Readonly<Record<string, Reasons>>>
>;

test('every file of the mutation rooms exists', () => {
  const named = Object.entries(rooms).flat(2);
  expect(named.filter((name) => !existsSync(join(projectFolder, name)))).toEqual([]);
});

test('each change that is left has a reason, and is in a file of a room', () => {
  expect(Object.keys(left).filter((file) => rooms[file] === undefined)).toEqual([]);
  const reasons = Object.values(left).flatMap((lines) => Object.values(lines).flatMap(Object.values));
  expect(reasons.filter((why) => why === '')).toEqual([]);
});
