/** `completions`: prints the script that teaches a shell this command line. */
import { Argument, type Command } from 'commander';
import type { CliContext } from './context.ts';
import { printLine } from './output.ts';
import { bashScript } from './completion-script.ts';
import { wholeProgram } from './program.ts';

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

export function define(program: Command, context: CliContext): void {
  program
    .command('completions')
    .description('Print the completion script of a shell.')
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(shells))
    .addHelpText(
      'after',
      `
Examples:
  source <(admin-mirror completions bash)          in ~/.bashrc
  source <(admin-mirror completions zsh)           in ~/.zshrc, after compinit`,
    )
    .action(async (shell: Shell) => {
      if (shell === 'zsh') printLine(context, 'autoload -U +X bashcompinit && bashcompinit');
      printLine(context, bashScript(await wholeProgram(context)));
    });
}
