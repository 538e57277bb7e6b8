/** How a copy is watched: one line that redraws itself on a terminal, nothing elsewhere. */
import type { CliContext } from './context.ts';
import { barOf } from './progress-text.ts';
import { screenOf } from './sieve.ts';

export interface ShareWatch {
  /** Told how much of the work is done, from 0 to 1. */
  readonly progress: (share: number) => void;
  /** Takes the line away. */
  readonly close: () => void;
}

/** @param title what is being done, as `copying` */
export function openShareWatch(context: CliContext, title: string): ShareWatch {
  const screen = screenOf(context.stderr);
  if (!screen.isTTY || context.quiet()) return { progress: () => {}, close: () => {} };
  let drawn = '';
  return {
    progress: (share) => {
      const line = `${title} ${barOf(share)} ${String(Math.floor(share * 100)).padStart(3)} %`;
      if (line === drawn) return;
      drawn = line;
      screen.write(`\r${line}`);
    },
    close: () => {
      if (drawn !== '') screen.write(`\r${' '.repeat(drawn.length)}\r`);
    },
  };
}
