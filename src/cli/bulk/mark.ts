/** The one question about a file's amounts: what its commas and points are. */
import { moneyText } from '../../bulk/money.ts';
import type { DecimalMark, MarkQuestion } from '../../bulk/sheet/amount.ts';
import { shown } from '../../bulk/sheet/cell.ts';
import { InterruptedError, UsageError } from '../../model/errors.ts';
import type { CliContext } from '../context.ts';
import { onTerminal } from '../consent.ts';

/**
 * The mark that the person chose; null where nobody can be asked, or nobody wants to be. Throws a UsageError where none
 * is meant, and an InterruptedError where the question is broken off.
 */
export async function askMark(
  context: CliContext,
  { readings, row, text, count }: MarkQuestion,
  unasked: boolean,
): Promise<DecimalMark> {
  if (unasked || !context.stdin.isTTY || !context.stderr.isTTY) return null;
  const { confirm, isCancel, select } = await import('@clack/prompts');
  const others = count === 1 ? '' : ` (and ${count - 1} more like it)`;
  const [only, another] = readings;
  const answer = await onTerminal<DecimalMark | boolean | symbol>(context, (terminal) =>
    only !== undefined && another === undefined
      ? confirm({
          ...terminal,
          message: `The amount of row ${row} is ${shown(text)}${others}. Is that ${moneyText(only.amount)}?`,
          // A comma before two digits is how half of Europe writes; a thousand that may be one and some is not so clear.
          initialValue: only.mark === 'comma',
        })
      : select<DecimalMark>({
          ...terminal,
          message: `The amount of row ${row} is ${shown(text)}${others}. What is that?`,
          options: [
            ...readings.map(({ mark, amount }) => ({ value: mark, label: moneyText(amount) })),
            { value: null, label: 'none of these' },
          ],
        }),
  );
  context.signal.throwIfAborted();
  if (isCancel(answer)) throw new InterruptedError('SIGINT');
  const mark = answer === true ? only?.mark : answer;
  if (typeof mark === 'string') return mark;
  throw new UsageError('the amounts of the file cannot be read; nothing was planned', {
    advice: 'Write them as plain numbers, such as 1234.56, and run it again.',
  });
}
