/** Every command by name. Only the module of the command that is asked for is loaded. */
import type { Command } from 'commander';
import type { CliContext } from './context.ts';

/** What a command's module exports: adds the command, or several, to the program. */
interface CommandModule {
  readonly define: (program: Command, context: CliContext) => void;
}

export interface CommandRow {
  readonly name: string;
  readonly group: (typeof groups)[keyof typeof groups];
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
  /** Left out of the help and the completions. */
  readonly hidden?: boolean;
}

/** The headings of the help. */
export const groups = {
  mirror: 'Keep the mirror:',
  query: 'Query the mirror:',
  server: 'Read and change the server:',
  sandbox: 'Try it out:',
  about: 'Settings and help:',
} as const;

function row(group: CommandRow['group'], name: string, summary: string, load: CommandRow['load']): CommandRow {
  return { name, group, summary, load };
}

/** In the order of the help. */
export const commands: readonly CommandRow[] = [
  row(groups.mirror, 'sync', 'bring the mirror up to date', () => import('./sync.ts')),
  row(groups.mirror, 'status', 'show how fresh the mirror is and what is wrong', () => import('./status.ts')),
  row(groups.mirror, 'verify', 'compare the mirror with the server, and change neither', () => import('./verify.ts')),
  row(
    groups.mirror,
    'certify',
    'write a signed statement of what a complete mirror holds, or check one',
    () => import('./certify.ts'),
  ),
  row(
    groups.mirror,
    'backup',
    'copy mirror and journal to a folder named by the time, and check both',
    () => import('./backup.ts'),
  ),
  row(
    groups.mirror,
    'publish',
    'write the mirror into PostgreSQL, where many can read it',
    () => import('./publish.ts'),
  ),
  row(
    groups.mirror,
    'store',
    'move journal, accounts and jobs from files to a shared store, or back',
    () => import('./store.ts'),
  ),
  row(groups.mirror, 'forget', 'erase one person from the mirror, and keep them out', () => import('./forget.ts')),
  row(groups.mirror, 'schedule', 'run the jobs of the config file at their times', () => import('./schedule.ts')),
  row(groups.mirror, 'serve', 'serve the console, for a browser', () => import('./serve.ts')),
  row(
    groups.query,
    'export',
    'write tables, views or a query as CSV, JSON lines, Parquet or Excel',
    () => import('./export.ts'),
  ),
  row(groups.query, 'query', 'run one SQL statement that reads', () => import('./query.ts')),
  row(groups.query, 'reports', 'list the saved reports, or explain one', () => import('./reports.ts')),
  row(groups.query, 'changes', 'show who changed what between two times, field by field', () => import('./changes.ts')),
  row(groups.query, 'schema', 'show what every table and column means', () => import('./schema.ts')),
  row(
    groups.query,
    'snapshot',
    'copy the mirror as it is now, with --anonymise for others to see',
    () => import('./snapshot.ts'),
  ),
  row(groups.sandbox, 'sandbox', 'serve the API on this machine, with seed data', () => import('./sandbox.ts')),
  { ...row(groups.sandbox, 'demo', 'show the main job against the sandbox', () => import('./demo.ts')), hidden: true },
  row(groups.server, 'users', 'every operation on users, on the server itself', () => import('./resources.ts')),
  row(groups.server, 'packages', 'list the packages of the server', () => import('./resources.ts')),
  row(groups.server, 'emails', 'list the emails of the server', () => import('./resources.ts')),
  row(groups.server, 'coupons', 'list the coupons of the server', () => import('./resources.ts')),
  row(
    groups.server,
    'bulk',
    'send many changes from a file, each once, with a record of each',
    () => import('./bulk.ts'),
  ),
  row(
    groups.server,
    'audit',
    'show who did what, and whether the record of it was altered',
    () => import('./audit.ts'),
  ),
  row(groups.about, 'people', 'accounts of people: their roles and passwords', () => import('./people.ts')),
  row(groups.about, 'init', 'ask for server and key, try them, and write the config file', () => import('./init.ts')),
  row(
    groups.about,
    'doctor',
    'check settings, key, server and files, and say what is wrong',
    () => import('./doctor.ts'),
  ),
  row(groups.about, 'config', 'show every setting and where it came from', () => import('./config.ts')),
  row(groups.about, 'completions', 'print the completion script of a shell', () => import('./completions.ts')),
];
