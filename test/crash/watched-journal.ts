/** A journal that calls `moment` before and after each of its steps, to kill or pause the process there. */
import type { Journal } from '../../src/journal/port.ts';

/** The methods that write. Reads are not moments. */
const writing = new Set<string | symbol>([
  'move',
  'moveLater',
  'flush',
  'takeUp',
  'setBatchState',
  'acquireLock',
  'releaseLock',
]);

export function watched(journal: Journal, moment: (name: string) => void): Journal {
  return new Proxy(journal, {
    get(target, name, receiver) {
      const value: unknown = Reflect.get(target, name, receiver);
      if (typeof value !== 'function' || !writing.has(name)) return value;
      return async (...given: unknown[]): Promise<unknown> => {
        moment(`before ${String(name)}`);
        const result: unknown = await Reflect.apply(value, target, given);
        moment(`after ${String(name)}`);
        return result;
      };
    },
  });
}
