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
  answers: 'Ask the mirror:',
  api: 'Ask and change the server:',
  sandbox: 'Try it out:',
  about: 'Settings and help:',
} as const;

/** In the order of the help: sync, status, verify, backup, forget, schedule · export, query, reports, changes, schema, snapshot · users … coupons · sandbox · doctor, config, … */
export const commands: readonly CommandRow[] = [
  {
    name: 'sync',
    group: groups.mirror,
    summary: 'bring the mirror up to date',
    load: () => import('./sync.ts'),
  },
  {
    name: 'status',
    group: groups.mirror,
    summary: 'show how fresh the mirror is and what is wrong',
    load: () => import('./status.ts'),
  },
  {
    name: 'verify',
    group: groups.mirror,
    summary: 'compare the mirror with the server, and change neither',
    load: () => import('./verify.ts'),
  },
  {
    name: 'backup',
    group: groups.mirror,
    summary: 'copy mirror and journal to a folder named by the time, and check both',
    load: () => import('./backup.ts'),
  },
  {
    name: 'forget',
    group: groups.mirror,
    summary: 'erase one person from the mirror, and keep them out',
    load: () => import('./forget.ts'),
  },
  {
    name: 'schedule',
    group: groups.mirror,
    summary: 'run the jobs of the config file at their times',
    load: () => import('./schedule.ts'),
  },
  {
    name: 'serve',
    group: groups.mirror,
    summary: 'serve the console, for a browser',
    load: () => import('./serve.ts'),
  },
  {
    name: 'export',
    group: groups.answers,
    summary: 'write tables, views or a query as CSV, JSON lines, Parquet or Excel',
    load: () => import('./export.ts'),
  },
  {
    name: 'query',
    group: groups.answers,
    summary: 'run one SQL statement that reads',
    load: () => import('./query.ts'),
  },
  {
    name: 'reports',
    group: groups.answers,
    summary: 'list the saved reports, or explain one',
    load: () => import('./reports.ts'),
  },
  {
    name: 'changes',
    group: groups.answers,
    summary: 'show who changed what between two times, field by field',
    load: () => import('./changes.ts'),
  },
  {
    name: 'schema',
    group: groups.answers,
    summary: 'show what every table and column means',
    load: () => import('./schema.ts'),
  },
  {
    name: 'snapshot',
    group: groups.answers,
    summary: 'copy the mirror as it is now, with --anonymise for others to see',
    load: () => import('./snapshot.ts'),
  },
  {
    name: 'sandbox',
    group: groups.sandbox,
    summary: 'serve the API on this machine, with made-up data',
    load: () => import('./sandbox.ts'),
  },
  {
    name: 'demo',
    group: groups.sandbox,
    summary: 'show the main job against the sandbox',
    load: () => import('./demo.ts'),
    hidden: true,
  },
  {
    name: 'users',
    group: groups.api,
    summary: 'every operation on users, on the server itself',
    load: () => import('./resources.ts'),
  },
  {
    name: 'packages',
    group: groups.api,
    summary: 'list the packages of the server',
    load: () => import('./resources.ts'),
  },
  {
    name: 'emails',
    group: groups.api,
    summary: 'list the emails of the server',
    load: () => import('./resources.ts'),
  },
  {
    name: 'coupons',
    group: groups.api,
    summary: 'list the coupons of the server',
    load: () => import('./resources.ts'),
  },
  {
    name: 'bulk',
    group: groups.api,
    summary: 'send many changes from a file, each once, with a record of each',
    load: () => import('./bulk.ts'),
  },
  {
    name: 'audit',
    group: groups.api,
    summary: 'show who did what, and whether the record of it was altered',
    load: () => import('./audit.ts'),
  },
  {
    name: 'people',
    group: groups.about,
    summary: 'accounts of people: their roles and passwords',
    load: () => import('./people.ts'),
  },
  {
    name: 'init',
    group: groups.about,
    summary: 'ask for server and key, try them, and write the config file',
    load: () => import('./init.ts'),
  },
  {
    name: 'doctor',
    group: groups.about,
    summary: 'check settings, key, server and files, and say what is wrong',
    load: () => import('./doctor.ts'),
  },
  {
    name: 'config',
    group: groups.about,
    summary: 'show every setting and where it came from',
    load: () => import('./config.ts'),
  },
  {
    name: 'completions',
    group: groups.about,
    summary: 'print the completion script of a shell',
    load: () => import('./completions.ts'),
  },
];
