import { describe, expect, test } from 'vitest';
import { parseConfigFile } from '../../src/settings/config-file.ts';
import { readJobs } from '../../src/settings/jobs.ts';
import { commandText, ownTimeZone } from '../../src/model/job.ts';
import { textOf } from '../support/documents.ts';

function read(text: string) {
  const file = parseConfigFile(text, 'config.yaml');
  expect(file.problems).toEqual([]);
  return readJobs(file.jobs ?? []);
}

/** The message and advice of the only problem. */
function problemOf(text: string): string {
  const file = parseConfigFile(text, 'config.yaml');
  const problems = [...file.problems, ...readJobs(file.jobs ?? []).problems];
  expect(problems.map(({ message }) => message)).toHaveLength(1);
  return `${problems[0]?.message}\n${problems[0]?.advice ?? ''}`;
}

const nightly = 'jobs:\n  - name: nightly\n    run: sync\n    cron: "15 2 * * *"\n';

describe('a job', () => {
  test('has defaults for omitted settings', () => {
    expect(read(nightly).jobs).toEqual([
      {
        name: 'nightly',
        run: 'sync',
        call: { path: ['sync'], operands: [], options: {} },
        cron: '15 2 * * *',
        timezone: ownTimeZone(undefined),
        after: [],
        requireComplete: false,
      },
    ]);
  });

  test('has the settings that are given', () => {
    const more = '    timezone: Europe/Berlin\n';
    const second = '  - {name: b, run: verify, cron: "@daily", after: [nightly, nightly], require: complete}\n';
    const [first, other] = read(nightly + more + second).jobs;
    expect(first).toMatchObject({ timezone: 'Europe/Berlin' });
    expect(other).toMatchObject({ after: ['nightly'], requireComplete: true });
  });

  test.each([
    [
      'run: sync, resources: [users, emails], quick: true, full: false, max_requests: 50',
      'sync users emails --quick --max-requests 50',
    ],
    ['run: verify, resources: coupons, deep: true', 'verify coupons --deep'],
    [
      `run: export, what: users, columns: [id, email], where: "balance > 0", format: jsonl, gzip: true, output: a b.gz`,
      `export users --columns id,email --where 'balance > 0' --output 'a b.gz' --format jsonl --gzip`,
    ],
    [`run: export, all: true, output: out, keep: 30`, 'export --all --output out --keep 30'],
    [
      `run: export, what: "report:top-balances", params: {from: 2026-10-01, top: 5}, output: top.csv`,
      'export report:top-balances --param from=2026-10-01 --param top=5 --output top.csv',
    ],
    ['run: snapshot, file: copy.db', 'snapshot copy.db'],
    ['run: backup, folder: /backups, keep: 7', 'backup /backups --keep 7'],
  ])('%s becomes the command of its kind', (options, command) => {
    const { jobs, problems } = read(`jobs:\n  - {name: a, cron: "0 3 * * *", ${options}}\n`);
    expect(problems).toEqual([]);
    expect(jobs.map(({ call }) => commandText(call))).toEqual([`admin-mirror ${command}`]);
  });

  test('does not exist if the list is empty or missing', () => {
    expect(read('jobs:\n').jobs).toEqual([]);
    expect(read('jobs: []\n').jobs).toEqual([]);
    expect(read('history:\n  keep: 5s\n').jobs).toEqual([]);
  });
});

describe('a mistake in a job is reported with its line:', () => {
  test.each([
    ['jobs: 5\n', 'config.yaml:1: "jobs" must be a list'],
    ['jobs:\n  - sync\n', 'config.yaml:2: a job must hold settings as "name: value"'],
    ['jbos:\n  - a: 1\n', 'config.yaml:1: unknown setting "jbos"\nDid you mean "jobs"?'],
    ['jobs:\n  - name: a\n    run: sync\n', 'config.yaml:2: job "a" has no cron\nAdd cron: a cron expression such as'],
    ['jobs:\n  - run: sync\n    cron: "@daily"\n', 'config.yaml:2: job 1 has no name\n'],
    [
      'jobs:\n  - name: a b\n    run: sync\n    cron: "@daily"\n',
      'config.yaml:2: job "a b": name is "a b": expected a name of letters',
    ],
    [
      `${nightly}    quik: true\n`,
      'config.yaml:5: job "nightly": there is no setting "quik" of sync\nDid you mean "quick"?',
    ],
    [`${nightly}    deep: true\n`, 'config.yaml:5: job "nightly": there is no setting "deep" of sync\nKnown: name, '],
    [
      nightly.replace('sync', 'snyc'),
      'config.yaml:3: job "nightly": run is "snyc": expected one of sync, export, verify, snapshot, backup, publish\nCorrect it there. Did you mean "sync"?',
    ],
    [
      nightly.replace('15 2', '75 2'),
      'config.yaml:4: job "nightly": cron is "75 2 * * *": Constraint error, got value 75 expected range 0-59\nWrite minute,',
    ],
    [nightly.replace('15 2 * * *', '0 3 30 2 *'), 'Invalid explicit day of month'],
    [nightly.replace('15 2 * * *', '15 2'), 'it has 2 fields, not five, or six with seconds'],
    [nightly.replace('15 2 * * *', 'H 2 * * *'), 'H stands for no time'],
    [nightly.replace('15 2 * * *', '0 2 * * MONDAY'), 'cannot resolve alias'],
    [nightly.replace('15 2 * * *', '@nightly'), 'cannot resolve alias'],
    [
      nightly.replace('15 2 * * *', '0 4 1-7 * 0'),
      'cron is "0 4 1-7 * 0": it names days of the month and weekdays, which means either in some programs and both in others\n' +
        'For either, write two jobs. For both, number the weekday: "0 4 * * 0#1" is the first Sunday',
    ],
    [
      `${nightly}    timezone: Europe/Berln\n`,
      'config.yaml:5: job "nightly": timezone is "Europe/Berln": expected a time zone such as Europe/Berlin or UTC\nCorrect it there. Did you mean "Europe/Berlin"',
    ],
    [
      `${nightly}    full: true\n    quick: true\n`,
      'config.yaml:2: job "nightly" has full and quick: only one of them can be',
    ],
    [`${nightly}    resources: [users, emials]\n`, 'expected names of resources, such as [users, packages]'],
    [`${nightly}    require: complete\n`, 'job "nightly" has require, but no after'],
    [`${nightly}    after: nigthly\n`, 'job "nightly" comes after "nigthly", and there is no such job'],
    [`${nightly}    after: nightly\n`, 'job "nightly" comes after itself'],
    [
      `${nightly}  - {name: nightly, run: sync, cron: "@daily"}\n`,
      'config.yaml:5: there is already a job named "nightly"',
    ],
    [
      `${nightly}    after: b\n  - {name: b, run: sync, cron: "@daily", after: nightly}\n`,
      'config.yaml:2: the jobs nightly, b wait for each other',
    ],
    ['jobs:\n  - {name: a, run: export, what: users, cron: "@daily"}\n', 'config.yaml:2: job "a" needs output'],
    ['jobs:\n  - {name: a, run: export, output: x, cron: "@daily"}\n', 'job "a" needs what or sql or all'],
  ])('%j', (text, expected) => {
    expect(problemOf(text)).toContain(expected);
  });
});

test('the jobs of the example file and of docs/worker.md are accepted', () => {
  const example = textOf('config/admin-mirror.example.yaml');
  const opened = example.slice(example.indexOf('# jobs:')).replaceAll(/^# /gm, '');
  expect(read(opened).jobs.map(({ name }) => name)).toEqual(['sync', 'users', 'check']);
  const [, shown = ''] = /```text\n(jobs:[^]*?)```/.exec(textOf('docs/worker.md')) ?? [];
  expect(read(shown).jobs.map(({ name }) => name)).toEqual(['sync', 'users']);
});

test.each(['jobs: [&a {name: x, run: *a}]', 'history: {ignore: &a [*a]}'])(
  'refuses a file that contains itself: %s',
  (text) => {
    const { problems } = parseConfigFile(text, 'config.yaml');
    expect(problems.map(({ message }) => message).join()).toMatch(
      /^config\.yaml:1: it refers to something that contains it/,
    );
  },
);
