import { describe, expect, test } from 'vitest';
import { boundValues } from '../../../src/data/reports/run.ts';
import type { ReportParameter } from '../../../src/data/reports/reports.ts';

const now = Date.parse('2026-03-11T10:20:30Z');

function valueOf(type: ReportParameter['type'], text: string): unknown {
  const parameters = [{ name: 'it', type, default: undefined, meaning: 'it' }];
  return boundValues({ name: 'mine', parameters }, new Map([['it', text]]), now)['it'];
}

describe('a value of a parameter', () => {
  test.each([
    ['date', '2026-02-28', '2026-02-28'],
    ['date', 'today', '2026-03-11'],
    ['date', 'yesterday', '2026-03-10'],
    ['date', '30d ago', '2026-02-09'],
    ['date', '30d', '2026-02-09'],
    ['date', '2026-02-28T23:00:00-05:00', '2026-03-01'],
    ['time', 'now', '2026-03-11T10:20:30.000000Z'],
    ['time', '2026-03-01', '2026-03-01T00:00:00.000000Z'],
    ['time', '90m', '2026-03-11T08:50:30.000000Z'],
    ['integer', '007', 7n],
    ['integer', '-900719925474099200', -900719925474099200n],
    ['number', '12.5', 12.5],
    ['text', ' as it is ', ' as it is '],
    ['flag', '1', 1n],
  ] as const)('%s %s is bound as intended', (type, text, value) => {
    expect(valueOf(type, text)).toBe(value);
  });

  test.each([
    ['date', '2026-02-30', /a day such as/],
    ['time', 'soon', /a time such as/],
    ['integer', '1.5', /a whole number/],
    ['number', '1e5', /a number such as/],
    ['number', '', /a number such as/],
    ['flag', 'yes', /0 or 1/],
  ] as const)('%s "%s" is refused, with what it must be', (type, text, words) => {
    expect(() => valueOf(type, text)).toThrow(
      expect.objectContaining({
        message: `the parameter it of report mine is "${text}"`,
        advice: expect.stringMatching(words),
      }),
    );
  });

  test('that is not given is the default, and an error without one', () => {
    const parameters: ReportParameter[] = [
      { name: 'from', type: 'date', default: '1d ago', meaning: 'first' },
      { name: 'user', type: 'integer', default: null, meaning: 'who' },
    ];
    expect(boundValues({ name: 'mine', parameters }, new Map(), now)).toEqual({ from: '2026-03-10', user: null });
    expect(() => valueOf('text', '')).not.toThrow();
    const needy = {
      name: 'mine',
      parameters: [{ name: 'word', type: 'text', default: undefined, meaning: 'what' }],
    } as const;
    expect(() => boundValues(needy, new Map(), now)).toThrow('report mine needs the parameter "word": what');
  });

  test('with an unknown name is refused with the nearest match', () => {
    const parameters: ReportParameter[] = [{ name: 'from', type: 'date', default: null, meaning: 'first' }];
    expect(() => boundValues({ name: 'mine', parameters }, new Map([['form', 'x']]), now)).toThrow(
      expect.objectContaining({ message: 'report mine has no parameter "form"', advice: 'Did you mean "from"?' }),
    );
  });
});
