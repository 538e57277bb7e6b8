/** What watches a run of many steps, whichever it is: drawn on a terminal, logged elsewhere, or both. */
import { minuteMs } from '../model/time.ts';

export interface Watch<Event> {
  readonly progress: (event: Event) => void;
  /** Tells the log how it ended. */
  readonly ended: (fields: Readonly<Record<string, unknown>>) => void;
  /** Ends the drawing, so that the answer stands below it. */
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
