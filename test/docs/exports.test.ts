import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { filesUnder, textOf } from '../support/documents.ts';

/** What only tests import, and why. Add to it only what no command, page or library call can reach. */
const forTests = [
  // Decisions, over more cases than their callers can be brought into.
  'src/api/body.ts problemsIn',
  'src/api/retry.ts decideRetry fullJitter',
  'src/api/transport.ts mayBeProxied',
  'src/bulk/claim.ts decideClaim',
  'src/bulk/intent.ts mayFollow',
  'src/bulk/journal-memory.ts memoryProblem',
  'src/bulk/plan-rows.ts sizeNotes userNotes',
  'src/bulk/send-row.ts decideSending',
  'src/cli/files.ts datedName keepNewest',
  'src/cli/progress.ts progressLine',
  'src/data/reports/run.ts boundValues',
  'src/journal/chain.ts stepRow',
  'src/mirror/read.ts readBack readEnd',
  'src/mirror/server-check.ts probesOf',
  'src/mirror/store/page-memory.ts sealOf',
  'src/people/sign-in.ts isPassword',
  'src/worker/alerts.ts alertsAfter isDue',
  // Opened with ports, times or costs of the test.
  'src/bulk/single-write.ts recordedWrite',
  'src/data/changes.ts changesSince',
  'src/data/copy-source.ts copyFile',
  'src/data/publish/database.ts openDatabase',
  'src/journal/open.ts openBackendForReading',
  'src/mirror/open.ts openSyncEngine openVerifyEngine recordDifferences',
  'src/people/sign-in.ts hashPassword sessionLimits',
  'src/worker/channels.ts runAlertCommand sendRequest',
  'src/worker/run-job.ts startChild',
  // What tests are built on, and what generated files and documents follow.
  'src/data/reports/reports.ts columnTypes',
  'src/sandbox/behaviour.ts defaultBehaviour switches',
  'src/sandbox/faults.ts htmlPage reset',
  'src/sandbox/sandbox.ts keyOf',
  'src/settings/block.ts thresholdsOf',
  'src/settings/jobs.ts commonOptions flagOf jobRules',
  'src/store/postgres-schema.ts sharedStatements',
].flatMap((each) => {
  const [path = '', ...names] = each.split(' ');
  return names.map((name) => `${path} ${name}`);
});

const code = filesUnder('src').filter((path) => path.endsWith('.ts'));

/** The names of each file that other files import; `*` for all. */
function importedBy(paths: readonly string[]): Set<string> {
  const imported = new Set<string>();
  for (const path of paths) {
    const text = textOf(path);
    const add = (from: string, names: string) => {
      for (const name of names.split(',')) {
        const [plain = ''] = name
          .trim()
          .replace(/^type /, '')
          .split(/ as |:/);
        imported.add(`${join(dirname(path), from)} ${plain.trim()}`);
      }
    };
    const given = /\{([^{}]*)\} (?:from |= await import\(\s*)'(\.[^']+)'/g;
    for (const [, names = '', from = ''] of text.matchAll(given)) add(from, names);
    // A file that is imported whole, or through a function, uses all of it.
    const whole = /(?:\* as \w+ from |(?<!\} = await )\bimport\(\s*)'(\.[^']+)'/g;
    for (const [, from = ''] of text.matchAll(whole)) add(from, '*');
  }
  return imported;
}

const exported = /^export (?:abstract )?(?:async )?(?:function\*?|class|const|interface|type) (\w+)/gm;

test('what a file exports is imported by another file', () => {
  const used = importedBy(code);
  const types = importedBy(filesUnder('test').filter((path) => path.endsWith('.ts')));
  const unused = code
    .filter((path) => !['src/index.ts', 'src/main.ts'].includes(path) && !used.has(`${path} *`))
    .flatMap((path) =>
      Array.from(textOf(path).matchAll(exported), ([line, name = '']) => ({
        of: `${path} ${name}`,
        isType: /^export (?:interface|type)/.test(line),
      })),
    )
    // Tests may name the types of what they call.
    .filter(({ of, isType }) => !used.has(of) && !(isType && types.has(of)))
    .map(({ of }) => of);
  expect(unused.sort()).toEqual(forTests.sort());
});
