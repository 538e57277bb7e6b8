/** Every command by name. Only the module of the given command is loaded. */
import type { Command } from 'commander';
import type { CliContext } from './context.ts';

export interface CommandRow {
  readonly name: string;
  readonly group: (typeof groups)[keyof typeof groups];
  readonly summary: string;
  /** The module that defines it. */
  readonly load: () => Promise<{ readonly define: (program: Command, context: CliContext) => void }>;
  /** On the first page of the help: what most people need. */
  readonly first?: boolean;
  /** Left out of the help and the completions. */
  readonly hidden?: boolean;
}

export const groups = {
  mirror: 'Keep the mirror:',
  query: 'Query the mirror:',
  server: 'Change the server:',
  about: 'Settings and help:',
} as const;

type Line = readonly [name: string, summary: string, load: CommandRow['load'], place?: 'first' | 'hidden'];

function inGroup(group: CommandRow['group'], lines: readonly Line[]): CommandRow[] {
  return lines.map(([name, summary, load, place]) => ({
    name,
    group,
    summary,
    load,
    first: place === 'first',
    hidden: place === 'hidden',
  }));
}

/** In the order of the help. */
export const commands: readonly CommandRow[] = [
  ...inGroup(groups.mirror, [
    ['init', 'ask for server and key, try them, and write the config file', () => import('./init.ts'), 'first'],
    ['doctor', 'check settings, key, server and files, and say what is wrong', () => import('./doctor.ts'), 'first'],
    ['sync', 'bring the mirror up to date', () => import('./sync.ts'), 'first'],
    ['status', 'show how fresh the mirror is and what is wrong', () => import('./status.ts'), 'first'],
    ['verify', 'compare the mirror with the server, and change neither', () => import('./verify.ts'), 'first'],
    ['schedule', 'run the jobs of the config file at their times', () => import('./schedule.ts'), 'first'],
    ['backup', 'copy mirror and journal to a timestamped folder, and check both', () => import('./backup.ts')],
    ['restore', 'put a backup, a snapshot or what is published in their place', () => import('./restore.ts')],
    ['publish', 'write the mirror into PostgreSQL, where many can read it', () => import('./publish.ts')],
    ['store', 'move journal, accounts and jobs from files to a shared store, or back', () => import('./store.ts')],
    ['forget', 'erase one person from the mirror, and keep them out', () => import('./forget.ts')],
  ]),
  ...inGroup(groups.query, [
    [
      'export',
      'write tables, views or a query as CSV, JSON lines, Parquet or Excel',
      () => import('./export.ts'),
      'first',
    ],
    ['query', 'run one read-only SQL statement', () => import('./query.ts'), 'first'],
    ['reports', 'list the saved reports, or explain one', () => import('./reports.ts'), 'first'],
    ['changes', 'show who changed what between two times, field by field', () => import('./changes.ts'), 'first'],
    ['schema', 'show what every table and column means', () => import('./schema.ts')],
    ['snapshot', 'copy the mirror as it is now', () => import('./snapshot.ts')],
  ]),
  ...inGroup(groups.server, [
    ['users', 'every operation on users, on the server itself', () => import('./resources.ts'), 'first'],
    ['packages', 'list the packages of the server', () => import('./resources.ts')],
    ['emails', 'list the emails of the server', () => import('./resources.ts')],
    ['coupons', 'list the coupons of the server', () => import('./resources.ts')],
    ['bulk', 'send many changes from a file, each once, with a record of each', () => import('./bulk.ts'), 'first'],
    ['audit', 'show who did what, and whether the journal was altered', () => import('./audit.ts'), 'first'],
    ['serve', 'serve the console, for a browser', () => import('./serve.ts'), 'first'],
    ['people', 'manage accounts, their roles and passwords', () => import('./people.ts')],
  ]),
  ...inGroup(groups.about, [
    ['config', 'show every setting and where it came from', () => import('./config.ts')],
    ['completions', 'print the completion script for a shell', () => import('./completions.ts')],
    ['sandbox', 'serve the API on this machine, with seed data', () => import('./sandbox.ts')],
    ['demo', 'show the main job against the sandbox', () => import('./demo.ts'), 'hidden'],
    ['complete', 'print what can complete a line', () => import('./completions.ts'), 'hidden'],
  ]),
];
