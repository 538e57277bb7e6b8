/** The records of windows: which days were read, when, and what their pages were. */
import { type Selectable, type Updateable } from 'kysely';
import type { ResourceName } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import { holdsSome } from '../windows.ts';
import type { NewWindow, RememberedPage, Window } from '../../store/mirror-types.ts';
import { build, type Runner, type Tables } from '../../store/kysely-sqlite.ts';
import { readPages, replacePages, touchedDays } from './page-memory.ts';
import { addCounts, type StorePorts } from './run-records.ts';
import type { Suppressions } from './suppressions.ts';

export function windowRecords({ database, runner, step }: StorePorts, suppressions: Suppressions) {
  const touched = touchedDays(database);
  return {
    windows: (resource: ResourceName) => readWindows(runner, resource),
    /** Replaces the windows of the same days. The new ones must follow each other without a gap. */
    replaceWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => {
        const [first, last] = [windows[0], windows.at(-1)];
        if (first === undefined || last === undefined) return;
        runner.run(
          build
            .deleteFrom('mirror_windows')
            .where('resource', '=', resource)
            .where('from_day', '>=', first.from)
            .where('to_day', '<=', last.to),
        );
        insertWindows(runner, resource, windows);
      }),
    /** Replaces all windows of the resource. */
    resetWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => {
        runner.run(build.deleteFrom('mirror_windows').where('resource', '=', resource));
        insertWindows(runner, resource, windows);
      }),
    /** Marks the window that holds this day to be read again. Its rows stay as fresh as they are. */
    resetWalks: (resource: ResourceName, day: Day): void => step(() => resetWalks(runner, resource, day)),
    /** Begins a walk. Returns whether something else than a sync has changed rows of the window since its last one. */
    beginWalk: (run: string, window: Window): boolean =>
      step(() => {
        const isTouched = holdsSome(window, touched.all(window.resource));
        // What is changed from now on is noted again. If the walk fails, the window forgets its pages.
        touched.forget(window.resource, window);
        // The rows of an unsettled walk come from different moments, so no page stands for them.
        if (window.state !== 'settled') replacePages(runner, window, []);
        const end = isTouched ? { fresh_as_of: null } : {};
        updateWindow(runner, window, { state: 'walking', pages_read: 0, run, cause: null, problem: null, ...end });
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
          replacePages(runner, window, suppressions.withoutTimes(window.resource, pages));
        }
        updateWindow(runner, window, {
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
        replacePages(runner, window, []);
        const { serverTotal: server_total, cause, problem } = end;
        updateWindow(runner, window, { state: 'unsettled', server_total, cause, problem, run });
      }),
    /** The pages of the window's last settled walk; none if its rows were written since, or if it was not settled. */
    rememberedPages: (window: Window) => readPages(runner, window),
    /** Counts pages that came again unchanged. */
    recordSamePages: (run: string, resource: ResourceName, pages: readonly RememberedPage[]): void =>
      step(() => {
        const sum = (of: (page: RememberedPage) => number) => pages.reduce((all, page) => all + of(page), 0);
        const [received, unchanged] = [sum(({ ids }) => ids.length), sum(({ owned }) => owned)];
        addCounts(runner, run, resource, { received, unchanged });
      }),
    /** The days, in order, of which something else than a sync has changed rows since the last walk of their window began. */
    touchedDays: (resource: ResourceName) => touched.all(resource),
  };
}

type Row = Omit<Selectable<Tables['mirror_windows']>, 'resource' | 'run'>;

function readWindows(runner: Runner, resource: ResourceName): Window[] {
  const query = build
    .selectFrom('mirror_windows')
    .select(['from_day', 'to_day', 'state', 'server_total', 'pages_read', 'fresh_as_of', 'cause', 'problem', 'surplus'])
    .where('resource', '=', resource)
    .orderBy('from_day');
  return runner.all<Row>(query).map((row) => ({
    resource,
    from: row.from_day as Day,
    to: row.to_day as Day,
    state: row.state,
    serverTotal: row.server_total,
    pagesRead: row.pages_read,
    freshAsOf: row.fresh_as_of as Timestamp | null,
    cause: row.cause,
    problem: row.problem,
    surplus: row.surplus,
  }));
}

function insertWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  for (const window of windows) {
    runner.run(
      build.insertInto('mirror_windows').values({
        resource,
        from_day: window.from,
        to_day: window.to,
        state: window.state ?? 'pending',
        server_total: window.serverTotal ?? null,
        fresh_as_of: window.freshAsOf ?? null,
        cause: window.cause ?? null,
        problem: window.problem ?? null,
        surplus: window.surplus ?? 0,
      }),
    );
  }
}

/** Marks all windows, or that of one day, to be read again. Their rows stay as fresh as they are. */
export function resetWalks(runner: Runner, resource: ResourceName, day?: Day): void {
  const all = build
    .updateTable('mirror_windows')
    .set({ state: 'pending', pages_read: 0, cause: null, problem: null })
    .where('resource', '=', resource);
  runner.run(day === undefined ? all : all.where('from_day', '<=', day).where('to_day', '>', day));
}

/** Counts one more page of the window's walk. */
export function advanceWindow(runner: Runner, window: Window): void {
  runner.run(
    build
      .updateTable('mirror_windows')
      .set((row) => ({ pages_read: row('pages_read', '+', 1) }))
      .where('resource', '=', window.resource)
      .where('from_day', '=', window.from),
  );
}

type Change = Partial<Omit<Updateable<Tables['mirror_windows']>, 'resource' | 'from_day' | 'to_day'>>;

function updateWindow(runner: Runner, window: Window, change: Change): void {
  runner.run(
    build
      .updateTable('mirror_windows')
      .set(change)
      .where('resource', '=', window.resource)
      .where('from_day', '=', window.from),
  );
}
