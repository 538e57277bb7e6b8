/** Flags that take a duration. */
import { InvalidArgumentError } from 'commander';
import { parseDuration } from '../model/time.ts';

/** A flag's text as milliseconds, above 0. */
export function toDuration(text: string): number {
  const ms = parseDuration(text);
  if (ms !== undefined && ms > 0) return ms;
  throw new InvalidArgumentError('It must be a duration such as 500ms, 30s or 10m.');
}
