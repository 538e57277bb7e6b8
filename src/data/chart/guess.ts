/** What to draw of a result of which nobody said so. */
import { UsageError } from '../../model/errors.ts';
import type { Row } from '../../store/reading-types.ts';
import { type ChartRequest, isNumber, mostSeries, timeOf } from './chart.ts';

/**
 * Columns of numbers against the first other one: as a line where that is time, else as bars. Where all are numbers, the
 * first is what the others are drawn against. Throws a UsageError where no column is of numbers.
 */
export function guessChart(columns: readonly { readonly name: string }[], rows: readonly Row[]): ChartRequest {
  const facts = columns.map(({ name }, index) => {
    const cells = rows.map((row) => row[index] ?? null).filter((cell) => cell !== null);
    return {
      name,
      isNumber: cells.length > 0 && cells.every(isNumber),
      isTime: cells.length > 0 && cells.every((cell) => timeOf(cell) !== null),
    };
  });
  const numbers = facts.filter((fact) => fact.isNumber);
  if (rows.length > 0 && numbers.length === 0) {
    throw new UsageError('there is nothing to draw: no column of the result holds numbers', {
      advice: 'Select a label and a number, as in SELECT status, count(*) AS users FROM users GROUP BY status.',
    });
  }
  const others = facts.filter((fact) => !fact.isNumber);
  const x = others.find(({ isTime }) => isTime) ?? others[0] ?? facts[0];
  const y = numbers.filter((fact) => fact !== x).slice(0, mostSeries);
  if (rows.length > 0 && y.length === 0) {
    throw new UsageError('there is nothing to draw a number against: the result has one column', {
      advice: 'Select a label and a number, as in SELECT status, count(*) AS users FROM users GROUP BY status.',
    });
  }
  const names = y.map(({ name }) => name);
  return {
    kind: x?.isTime === true ? 'line' : 'bar',
    x: x?.name ?? '',
    y: names,
    title: `${names.join(', ')} by ${x?.name ?? ''}`,
  };
}
