import { describe, expect, test } from 'vitest';
import { readHeader } from '../../../src/data/reports/reports.ts';

const whole = [
  '-- title: Users by status',
  '-- description: How many there are,',
  '--   and of what kind.',
  '-- parameter: from | date | 30d ago | the first day',
  '-- parameter: word | text | required | what to look for',
  '-- parameter: user | integer | none | only this one',
  '-- column: status | text | the status',
  '-- column: users | integer | how many',
  '-- needs: users, users.orders (status, price.period), mirror_runs',
  '-- assumes: from {from} on',
  '-- chart: bar status users',
  'SELECT status, count(*) AS users FROM users -- of any kind',
  'WHERE created_at >= :from GROUP BY status',
];

function problemsOf(...lines: readonly string[]): readonly string[] {
  return readHeader(lines.join('\n')).problems;
}

/** The header with one line replaced. */
function changed(from: RegExp, to: string): readonly string[] {
  return problemsOf(...whole.map((line) => (from.test(line) ? to : line)));
}

describe('the header of a report', () => {
  test('is parsed, and the SQL below it stays unchanged', () => {
    const { header, sql, problems } = readHeader(whole.join('\r\n'));
    expect(problems).toEqual([]);
    expect(header).toMatchObject({
      title: 'Users by status',
      description: 'How many there are, and of what kind.',
      parameters: [
        { name: 'from', type: 'date', default: '30d ago', meaning: 'the first day' },
        { name: 'word', type: 'text', default: undefined, meaning: 'what to look for' },
        { name: 'user', type: 'integer', default: null, meaning: 'only this one' },
      ],
      columns: [
        { name: 'status', type: 'text', meaning: 'the status' },
        { name: 'users', type: 'integer', meaning: 'how many' },
      ],
      assumptions: ['from {from} on'],
      chart: { kind: 'bar', x: 'status', y: ['users'] },
    });
    expect(header.needs.map(({ table, keys }) => [table, ...keys])).toEqual([
      ['users'],
      ['user_orders', 'status', 'price.period'],
      ['mirror_runs'],
    ]);
    expect(sql).toBe(whole.slice(-2).join('\n'));
  });

  test('names all missing parts at once', () => {
    expect(problemsOf('SELECT 1')).toEqual([
      'the header has no title',
      'the header has no description',
      'the header has no column',
      'the header has no needs',
    ]);
    expect(problemsOf(...whole.slice(0, -2))).toEqual(['there is no SQL below the header']);
  });

  test.each([
    [/title/, '-- titel: Users', /^line 1: the header knows no "titel". Did you mean "title"\?$/],
    [/title/, '-- Users by status', /^line 1: "-- Users by status" is not of the form "-- key: value"$/],
    [/chart/, '-- title: Again', /^line 11: a second title$/],
    [/from \|/, '-- parameter: from | date | 30d ago', /^line 4: a parameter is written "name \| type/],
    [/from \|/, '-- parameter: From | date | none | x', /^line 4: "From" is not the name of a parameter/],
    [
      /from \|/,
      '-- parameter: from | dat | none | x',
      /^line 4: the parameter from has the type "dat". Did you mean "date"/,
    ],
    [
      /from \|/,
      '-- parameter: from | date | soon | x',
      /^line 4: the parameter from has the default "soon", which is not a day/,
    ],
    [/user \|/, '-- parameter: word | text | none | x', /^two parameters are called "word"$/],
    [/users \|/, '-- column: users | int | x', /^line 8: the column users has the type "int". Did you mean "integer"/],
    [/users \|/, '-- column: users', /^line 8: a column is written "name \| type \| meaning"$/],
    [/needs/, '-- needs: users.ordrs', /^line 9: users have no related records called "ordrs". Did you mean "orders"/],
    [/needs/, '-- needs: coupns.orders', /^line 9: there are no coupns/],
    [/needs/, '-- needs: users (status)', /^line 9: keys belong to related records/],
    [/assumes/, '-- assumes: form {form}', /^line 10: \{form\} is not a parameter$/],
    [/chart/, '-- chart: pie status users', /^line 11: a chart is written/],
    [/chart/, '-- chart: bar status user', /^line 11: the chart names "user", which is not a column; users is$/],
    [/chart/, '-- chart: bar users status', /^line 11: the chart draws "status", which is text$/],
  ])('says what is wrong with a line: %s → %s', (from, to, problem) => {
    const problems = changed(from, to);
    expect(problems.find((each) => problem.test(each))).toBeDefined();
  });
});
