/** The table of windows: which stretches of creation time the mirror has read, and when. */
import type { Selectable, Updateable } from 'kysely';
import type { ResourceName } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type { NewWindow, Window } from '../../store/mirror-types.ts';
import { build, type Runner, type Tables } from '../../store/tables.ts';

type Row = Omit<Selectable<Tables['mirror_windows']>, 'resource' | 'run'>;

export function readWindows(runner: Runner, resource: ResourceName): Window[] {
  const query = build
    .selectFrom('mirror_windows')
    .select(['from_day', 'to_day', 'state', 'server_total', 'pages_read', 'fresh_as_of', 'problem'])
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
    problem: row.problem,
  }));
}

/** Puts the windows, which follow each other without a gap, in the place of those that cover the same days. */
export function replaceWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  const first = windows[0];
  const last = windows.at(-1);
  if (first === undefined || last === undefined) return;
  runner.run(
    build
      .deleteFrom('mirror_windows')
      .where('resource', '=', resource)
      .where('from_day', '>=', first.from)
      .where('to_day', '<=', last.to),
  );
  insertWindows(runner, resource, windows);
}

/** Puts the windows in the place of all that the resource has. */
export function resetWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  runner.run(build.deleteFrom('mirror_windows').where('resource', '=', resource));
  insertWindows(runner, resource, windows);
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
        problem: window.problem ?? null,
      }),
    );
  }
}

/** The windows, or that of one day, are to be read again. How fresh their rows are stays true. */
export function resetWalks(runner: Runner, resource: ResourceName, day?: Day): void {
  const all = build
    .updateTable('mirror_windows')
    .set({ state: 'pending', pages_read: 0, problem: null })
    .where('resource', '=', resource);
  runner.run(day === undefined ? all : all.where('from_day', '<=', day).where('to_day', '>', day));
}

/** Counts one more page of the window's walk as read. */
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

/** Changes the row of one window. */
export function updateWindow(runner: Runner, window: Window, change: Change): void {
  runner.run(
    build
      .updateTable('mirror_windows')
      .set(change)
      .where('resource', '=', window.resource)
      .where('from_day', '=', window.from),
  );
}
