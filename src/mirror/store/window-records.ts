/** The records of windows: which days were read, when, and what their pages were. */
import type { ResourceName } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import { holdsSome } from '../windows.ts';
import type { NewWindow, RememberedPage, Window, WindowCause, WindowState } from '../../store/mirror-types.ts';
import type { Statements } from '../../store/statements.ts';
import { readPages, replacePages, touchedDays } from './page-memory.ts';
import { addCounts, type StorePorts } from './run-records.ts';
import type { Suppressions } from './suppressions.ts';

export function windowRecords({ database, statements, step }: StorePorts, suppressions: Suppressions) {
  const touched = touchedDays(database);
  return {
    windows: (resource: ResourceName) => readWindows(statements, resource),
    /** Replaces the windows of the same days. The new ones must follow each other without a gap. */
    replaceWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => {
        const [first, last] = [windows[0], windows.at(-1)];
        if (first === undefined || last === undefined) return;
        statements.run(
          'DELETE FROM mirror_windows WHERE resource = @resource AND from_day >= @from AND to_day <= @to',
          { resource, from: first.from, to: last.to },
        );
        insertWindows(statements, resource, windows);
      }),
    /** Replaces all windows of the resource. */
    resetWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => {
        statements.run('DELETE FROM mirror_windows WHERE resource = @resource', { resource });
        insertWindows(statements, resource, windows);
      }),
    /** Marks the window that holds this day to be read again. Its rows stay as fresh as they are. */
    resetWalks: (resource: ResourceName, day: Day): void => step(() => resetWalks(statements, resource, day)),
    /** Begins a walk. Returns whether something else than a sync has changed rows of the window since its last one. */
    beginWalk: (run: string, window: Window): boolean =>
      step(() => {
        const isTouched = holdsSome(window, touched.all(window.resource));
        // What is changed from now on is noted again. If the walk fails, the window forgets its pages.
        touched.forget(window.resource, window);
        // The rows of an unsettled walk come from different moments, so no page stands for them.
        if (window.state !== 'settled') replacePages(statements, window, []);
        const end = isTouched ? { fresh_as_of: null } : {};
        updateWindow(statements, window, { state: 'walking', pages_read: 0, run, cause: null, problem: null, ...end });
        return isTouched;
      }),
    /** Settles a window. `end.pages` are those of its walk, for the next one to recognise. */
    settleWindow: (
      run: string,
      window: Window,
      end: Pick<Window, 'serverTotal' | 'freshAsOf' | 'surplus'> & {
        readonly pages: readonly RememberedPage[] | 'as they are';
      },
    ): void =>
      step(() => {
        const { pages, serverTotal: server_total, freshAsOf: fresh_as_of, surplus } = end;
        if (pages !== 'as they are') {
          replacePages(statements, window, suppressions.withoutTimes(window.resource, pages));
        }
        updateWindow(statements, window, {
          state: 'settled',
          cause: null,
          problem: null,
          run,
          server_total,
          fresh_as_of,
          surplus,
        });
      }),
    /** Leaves a window to be read again, with the reason. What an earlier walk has proven stays. */
    leaveWindow: (run: string, window: Window, end: Pick<Window, 'serverTotal' | 'cause' | 'problem'>): void =>
      step(() => {
        replacePages(statements, window, []);
        const { serverTotal: server_total, cause, problem } = end;
        updateWindow(statements, window, { state: 'unsettled', server_total, cause, problem, run });
      }),
    /** The pages of the window's last settled walk; none if its rows were written since, or if it was not settled. */
    rememberedPages: (window: Window) => readPages(statements, window),
    /** Counts pages that came again unchanged. */
    recordSamePages: (run: string, resource: ResourceName, pages: readonly RememberedPage[]): void =>
      step(() => {
        const sum = (of: (page: RememberedPage) => number) => pages.reduce((all, page) => all + of(page), 0);
        const [received, unchanged] = [sum(({ ids }) => ids.length), sum(({ owned }) => owned)];
        addCounts(statements, run, resource, { received, unchanged });
      }),
    /** The days, in order, of which something else than a sync has changed rows since the last walk of their window began. */
    touchedDays: (resource: ResourceName) => touched.all(resource),
  };
}

function readWindows(statements: Statements, resource: ResourceName): Window[] {
  return statements.all(
    `SELECT resource, from_day AS "from", to_day AS "to", state, server_total AS serverTotal, pages_read AS pagesRead,
       fresh_as_of AS freshAsOf, cause, problem, surplus
     FROM mirror_windows WHERE resource = @resource ORDER BY from_day`,
    { resource },
  );
}

function insertWindows(statements: Statements, resource: ResourceName, windows: readonly NewWindow[]): void {
  for (const window of windows) {
    statements.insert('mirror_windows', {
      resource,
      from_day: window.from,
      to_day: window.to,
      state: window.state ?? 'pending',
      server_total: window.serverTotal,
      fresh_as_of: window.freshAsOf,
      cause: window.cause,
      problem: window.problem,
      surplus: window.surplus,
    });
  }
}

/** Marks all windows, or that of one day, to be read again. Their rows stay as fresh as they are. */
export function resetWalks(statements: Statements, resource: ResourceName, day: Day | null = null): void {
  statements.run(
    `UPDATE mirror_windows SET state = 'pending', pages_read = 0, cause = NULL, problem = NULL
     WHERE resource = @resource AND (@day IS NULL OR (from_day <= @day AND to_day > @day))`,
    { resource, day },
  );
}

/** Counts one more page of the window's walk. */
export function advanceWindow(statements: Statements, { resource, from }: Window): void {
  statements.run(
    'UPDATE mirror_windows SET pages_read = pages_read + 1 WHERE resource = @resource AND from_day = @from',
    { resource, from },
  );
}

interface Change {
  readonly state: WindowState;
  readonly run: string;
  readonly cause: WindowCause | null;
  readonly problem: string | null;
  readonly pages_read?: number;
  readonly server_total?: number | null;
  readonly fresh_as_of?: Timestamp | null;
  readonly surplus?: number;
}

function updateWindow(statements: Statements, { resource, from }: Window, change: Change): void {
  statements.update('mirror_windows', { ...change }, { resource, from_day: from });
}
