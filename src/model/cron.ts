/**
 * Cron expressions. node-cron knows their language: five fields or six, names, ranges, steps, `L`, `W` and `#`. When a
 * clock somewhere shows such a time is src/worker/occurrences.ts: node-cron looks ahead from now alone, and leaves a day
 * out whose 02:30 the clock jumps over.
 */
import { createRequire } from 'node:module';
import type * as NodeCron from 'node-cron';
import type { WallTime } from './zone.ts';

/** Loading it takes 10 ms, and settings are read by every command: so only where there is an expression to be read. */
function nodeCron(): typeof NodeCron {
  return createRequire(import.meta.url)('node-cron') as typeof NodeCron;
}

const fieldWords: Readonly<Record<string, string>> = {
  second: 'second',
  minute: 'minute',
  hour: 'hour',
  dayOfMonth: 'day of the month',
  month: 'month',
  dayOfWeek: 'weekday',
};

/** Why the text is no cron expression; undefined where it is one. */
export function cronProblem(text: string): string | undefined {
  const { valid, errors } = nodeCron().validateDetailed(text);
  if (valid) return undefined;
  const [error] = errors;
  if (error === undefined) return 'it is no cron expression';
  const field = fieldWords[error.field];
  if (field === undefined || error.value === undefined) return error.message;
  const impossible = error.message.includes('impossible');
  return impossible ? `no month that it names has that day` : `"${error.value}" is no ${field}`;
}

/** What an expression says, of clocks that are never set forward or back. */
export interface CronPattern {
  /** Whether anything is to happen on the day; given is its midnight. */
  readonly matchesDay: (midnight: WallTime) => boolean;
  /** The times of such a day, in ms after its midnight, in order. */
  readonly times: readonly number[];
  /** Whether it names each hour of the day: then it means each hour that passes, not a time on the clock. */
  readonly everyHour: boolean;
}

/** Reads an expression that `cronProblem` has found nothing wrong with. */
export function parseCron(text: string): CronPattern {
  const { createTask, parse } = nodeCron();
  const fields = parse(text);
  const task = createTask(text, () => {}, { timezone: 'UTC' });
  // It was made for its understanding of days alone. Left as it is, node-cron would keep it for ever.
  void task.destroy();
  const ascending = (values: readonly number[]) => [...new Set(values)].sort((a, b) => a - b);
  const hours = ascending(fields.hour);
  const times = hours.flatMap((hour) =>
    ascending(fields.minute).flatMap((minute) =>
      ascending(fields.second).map((second) => ((hour * 60 + minute) * 60 + second) * 1_000),
    ),
  );
  const [first = 0] = times;
  const months = new Set(fields.month);
  return {
    // The month first: it is cheap, and leaves most days of a yearly job unasked.
    matchesDay: (midnight) =>
      months.has(new Date(midnight).getUTCMonth() + 1) && task.match(new Date(midnight + first)),
    times,
    everyHour: hours.length === 24,
  };
}
