/** The parts that lines of progress are made of. */
import type { CliContext } from './context.ts';
import { screenOf } from './sieve.ts';
import { minuteMs, secondMs } from '../model/time.ts';

/** `2:05`, or `1:02:03` from an hour on. */
export function durationText(ms: number): string {
  const seconds = Math.round(ms / secondMs);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const [hours = 0, minutes = 0, rest = 0] = parts;
  const tail = `${String(minutes).padStart(hours > 0 ? 2 : 1, '0')}:${String(rest).padStart(2, '0')}`;
  return hours > 0 ? `${hours}:${tail}` : tail;
}

const barWidth = 24;

/** A bar filled to that share, 0 to 1. */
export function barOf(share: number): string {
  const filled = Math.round(share * barWidth);
  return '█'.repeat(filled) + '░'.repeat(barWidth - filled);
}

export interface Watch<Event> {
  readonly progress: (event: Event) => void;
  readonly ended: (fields: Readonly<Record<string, unknown>>) => void;
  /** Ends the drawing, so that the result stands below it. */
  close(): Promise<void>;
}

/** Often enough to see that it goes on, seldom enough not to fill a log. */
export const logEveryMs = minuteMs / 6;

/** Draws, and logs what is drawn. */
export function drawnAndLogged<Event>(drawn: Watch<Event>, logged: Watch<Event>): Watch<Event> {
  return {
    progress: (event) => {
      drawn.progress(event);
      logged.progress(event);
    },
    ended: logged.ended,
    close: () => drawn.close(),
  };
}

interface ShareWatch {
  /** To be called with how much of the work is done, from 0 to 1. */
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
