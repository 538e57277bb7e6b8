/**
 * Cron expressions, as cron-parser reads them: five fields or six, names, ranges, steps, `L` and `#`. When a clock somewhere
 * shows such a time is src/worker/decide.ts.
 */
import { createRequire } from 'node:module';
import type * as CronParser from 'cron-parser';
import type { WallTime } from './zone.ts';

/** Loading it takes 15 ms, and settings are read by every command: so only where there is an expression to be read. */
function parse(text: string, currentDate: Date): CronParser.CronExpression {
  const { CronExpressionParser } = createRequire(import.meta.url)('cron-parser') as typeof CronParser;
  // On a clock that is never set forward or back.
  return CronExpressionParser.parse(text, { tz: 'UTC', currentDate });
}

const fieldNames = ['second', 'minute', 'hour', 'day of the month', 'month', 'weekday'];

/** Why the text cannot be taken for a cron expression; undefined where it can. */
export function cronProblem(text: string): { readonly problem: string; readonly advice: string } | undefined {
  const advice = 'Write minute, hour, day of the month, month and weekday: "15 2 * * *" is each night at 02:15.';
  const given = text.trim().split(/\s+/);
  const isNamed = text.startsWith('@');
  if (!isNamed && given.length !== 5 && given.length !== 6) {
    return { problem: `it has ${given[0] === '' ? 0 : given.length} fields, not five, or six with seconds`, advice };
  }
  const fields = given.length === 5 ? ['0', ...given] : given;
  // Elsewhere H stands for a time that the program chooses.
  const wrong = isNamed ? -1 : fields.findIndex((field, index) => /^H/i.test(field) || !isField(field, index));
  if (wrong !== -1) return { problem: `"${fields[wrong]}" is no ${fieldNames[wrong]}`, advice };
  let read: CronParser.CronFieldCollection;
  try {
    read = parse(text, new Date(0)).fields;
  } catch {
    return { problem: isNamed ? `"${text}" is no time` : 'no month that it names has that day', advice };
  }
  if (isNamed || read.dayOfMonth.isWildcard || read.dayOfWeek.isWildcard) return undefined;
  const [, minute, hour, days, month, weekdays] = fields;
  return {
    problem: 'it names days of the month and weekdays, which means either in some programs and both in others',
    advice:
      `For either, write two jobs, "${minute} ${hour} ${days} ${month} *" and "${minute} ${hour} * ${month} ${weekdays}". ` +
      'For both, number the weekday: "0 4 * * 0#1" is the first Sunday of each month, and "0 4 * * 5L" the last Friday.',
  };
}

function isField(field: string, index: number): boolean {
  const others = ['0', '*', '*', '*', '*', '*'];
  // Of any month, so that only the field itself can be wrong.
  try {
    parse(others.with(index, field).join(' '), new Date(0));
    return true;
  } catch {
    return false;
  }
}

/** What a valid expression says, of clocks that are never set forward or back. */
export interface CronTimes {
  /** The times after that one, or before it where `back` says so, the nearest first. */
  readonly from: (wall: WallTime, back: boolean) => Generator<WallTime, undefined>;
  /** Whether it names each hour of the day: then it means each hour that passes, not a time on the clock. */
  readonly everyHour: boolean;
}

/** Reads an expression that `cronProblem` has found nothing wrong with. */
export function cronTimes(text: string): CronTimes {
  const hours = new Set(parse(text, new Date(0)).fields.hour.values);
  return {
    *from(wall, back) {
      const expression = parse(text, new Date(wall));
      for (;;) {
        let next: number;
        try {
          next = (back ? expression.prev() : expression.next()).getTime();
        } catch {
          // It has looked for decades.
          return undefined;
        }
        yield next;
      }
    },
    everyHour: hours.size === 24,
  };
}
