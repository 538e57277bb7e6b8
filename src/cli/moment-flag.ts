/** Flags that take a point in time. */
import { InvalidArgumentError } from 'commander';
import { momentForms, parseMoment } from '../model/moment.ts';
import { systemClock } from '../model/time.ts';

/**
 * A flag's text as ms since 1970.
 * @param dayEnd a day stands for its last millisecond rather than its first
 */
export function toMoment(dayEnd = false): (text: string) => number {
  return (text) => {
    const moment = parseMoment(text, systemClock.now(), dayEnd);
    if (moment === undefined) throw new InvalidArgumentError(`It must be ${momentForms}.`);
    return moment;
  };
}
