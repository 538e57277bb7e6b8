/** Names with the day and the time of day in them: `users-{date}.csv` is `users-2026-03-11.csv`. Both in UTC. */
import { dayOf, parseDay } from '../model/time.ts';

const timePattern = String.raw`(?:[01]\d|2[0-3])[0-5]\d[0-5]\d`;

function timeOf(moment: number): string {
  return new Date(moment).toISOString().slice(11, 19).replaceAll(':', '');
}

/** Whether the name says when it was written. */
export function isDated(pattern: string): boolean {
  return pattern.includes('{date}');
}

/** The name at that moment, in ms since 1970. */
export function datedName(pattern: string, moment: number): string {
  return pattern.replaceAll('{date}', dayOf(moment)).replaceAll('{time}', timeOf(moment));
}

/**
 * When a name that the pattern makes was made, as text that sorts; undefined of a name that it does not make, such as
 * one with a day that no calendar has.
 */
export function stampIn(pattern: string, name: string): string | undefined {
  const parts = pattern.split(/(\{date\}|\{time\})/);
  const source = parts.map((part) => {
    if (part === '{date}') return String.raw`(\d{4}-\d{2}-\d{2})`;
    return part === '{time}' ? `(${timePattern})` : part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  });
  const found = new RegExp(`^${source.join('')}$`).exec(name);
  if (found === null) return undefined;
  const marks = parts.filter((part) => part === '{date}' || part === '{time}');
  const values = found.slice(1);
  const date = values[marks.indexOf('{date}')];
  const time = values[marks.indexOf('{time}')] ?? '';
  const isMade = values.every((value, index) => value === (marks[index] === '{date}' ? date : time));
  return isMade && date !== undefined && parseDay(date) !== undefined ? `${date} ${time}` : undefined;
}
