/** Every command by name. Only the module of the command that is asked for is loaded. */
import type { Command } from 'commander';
import type { CliContext } from './context.ts';

/** What a command's module exports: adds the command, or several, to the program. */
export interface CommandModule {
  readonly define: (program: Command, context: CliContext) => void;
}

export interface CommandRow {
  readonly name: string;
  readonly group: string;
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
  /** Left out of the help and the completions. */
  readonly hidden?: boolean;
}

const about = 'Settings and help:';

/** In the order of the help. */
export const commands: readonly CommandRow[] = [
  {
    name: 'config',
    group: about,
    summary: 'show every setting and where it came from',
    load: () => import('./config.ts'),
  },
  {
    name: 'completions',
    group: about,
    summary: 'print the completion script of a shell',
    load: () => import('./completions.ts'),
  },
];
