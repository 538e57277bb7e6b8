/**
 * Mutation testing of what decides: each of these files is changed in one place at a time, and its tests must notice. Says
 * what they did not notice, and ends with 1 where `left.json` has no reason for it.
 *
 * `npm run mutation` runs all, `npm run mutation -- src/mirror/plan.ts` one file. What was found of a file is kept in
 * `.found/`, so that a run goes on where the last one stopped and tries again only what changed.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Stryker } from '@stryker-mutator/core';

const root = fileURLToPath(new URL('../..', import.meta.url));
const own = (name) => fileURLToPath(new URL(name, import.meta.url));
const readJson = (name) => JSON.parse(readFileSync(own(name), 'utf8'));

/** The files that decide, each with the quick tests that hold it to that. */
const rooms = readJson('rooms.json');
/** By file and line, what may stay as it is, with the reason: nobody can tell the changed program from the other. */
const known = readJson('left.json');

const concurrency = Number(process.env['MUTATION_CONCURRENCY'] ?? 2);
const noticed = new Set(['Killed', 'Timeout', 'RuntimeError', 'CompileError']);

/** What was left is tried again in any case: the runner cannot tell which tests reach what is computed on import. */
function forgetLeft(foundFile) {
  if (!existsSync(foundFile)) return;
  const found = JSON.parse(readFileSync(foundFile, 'utf8'));
  for (const each of Object.values(found.files))
    each.mutants = each.mutants.filter(({ status }) => noticed.has(status));
  writeFileSync(foundFile, JSON.stringify(found));
}

async function mutate(file) {
  const tests = rooms[file];
  if (tests === undefined) throw new Error(`there is no ${file} in rooms.json`);
  // Read by vitest.config.ts, in the processes that run the tests.
  process.env['MUTATION_TESTS'] = tests.join(' ');
  process.env['TEST_PART'] ??= 'fast';
  const incrementalFile = own(`.found/${file.replaceAll('/', '-')}.json`);
  forgetLeft(incrementalFile);
  const stryker = new Stryker({
    configFile: own('stryker.config.json'),
    plugins: ['@stryker-mutator/vitest-runner', own('messages.mjs')],
    mutate: [file],
    concurrency,
    incrementalFile,
  });
  const found = (await stryker.runMutationTest()).filter(({ status }) => status !== 'Ignored');
  const left = found.filter(({ status }) => !noticed.has(status)).map((mutant) => wordsOf(file, mutant));
  return { file, mutants: found.length, killed: found.length - left.length, left };
}

/** The mutant by its text, not its line: `if (a < b)`, with what stands in the place of a part of it. */
function wordsOf(file, { location: { start, end }, replacement, mutatorName, status }) {
  // Lines and columns are counted from 1.
  const line = readFileSync(`${root}/${file}`, 'utf8').split('\n')[start.line - 1] ?? '';
  const from = line.slice(start.column - 1, start.line === end.line ? end.column - 1 : undefined).trim();
  return { line: start.line, code: line.trim(), from, to: replacement, mutatorName, status };
}

const isKnown = (file, { code, from, to }) => known[file]?.[code]?.[`${from} -> ${to}`] !== undefined;

mkdirSync(own('.found'), { recursive: true });
process.chdir(root);
const files = process.argv.slice(2);
const ends = [];
for (const file of files.length === 0 ? Object.keys(rooms) : files) {
  const end = await mutate(file);
  ends.push(end);
  for (const each of end.left) {
    const mark = isKnown(file, each) ? 'listed' : each.status === 'NoCoverage' ? 'NO TEST' : 'NOT NOTICED';
    process.stdout.write(
      `${mark} ${file}:${each.line} ${each.mutatorName}\n    ${each.code}\n  - ${each.from}\n  + ${each.to}\n`,
    );
  }
}
process.stdout.write('\n| file | mutants | killed | left |\n| --- | --- | --- | --- |\n');
for (const { file, mutants, killed, left } of ends) {
  process.stdout.write(`| \`${file}\` | ${mutants} | ${killed} | ${left.length} |\n`);
}
const open = ends.flatMap(({ file, left }) => left.filter((each) => !isKnown(file, each)));
process.stdout.write(`\n${basename(import.meta.url)}: ${open.length} not noticed and not listed\n`);
process.exitCode = open.length === 0 ? 0 : 1;
