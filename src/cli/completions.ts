/** `completions`: prints the script that teaches a shell this command line. The script asks the hidden `complete` for each word. */
import { readdirSync } from 'node:fs';
import { resolve } from 'node:path';
import { Argument, type Command } from 'commander';
import { script } from '@bomb.sh/tab';
import tab from '@bomb.sh/tab/commander';
import { openReading, openReports } from '../data/open.ts';
import { resourceNames } from '../model/resources.ts';
import { lookAtJournal } from './bulk/shared.ts';
import type { CliContext } from './context.ts';
import { wholeProgram } from './program.ts';

const shells = ['bash', 'zsh', 'fish', 'powershell'] as const;

/** The commands of this file; they are not offered themselves. */
const own = ['completions', 'complete'];

export function define(program: Command, context: CliContext): void {
  program
    .command('completions')
    .description('Print the completion script for a shell.')
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(shells))
    .addHelpText(
      'after',
      `
Examples:
  source <(admin-mirror completions bash)                        in ~/.bashrc
  source <(admin-mirror completions zsh)                         in ~/.zshrc, after compinit
  admin-mirror completions fish | source                         in ~/.config/fish/config.fish
  admin-mirror completions powershell | Out-String | iex         in $PROFILE`,
    )
    .action((shell: string) => script(shell, 'admin-mirror', 'admin-mirror'));
  program
    .command('complete', { hidden: true })
    .description('Print what can be the last of these words. The scripts of `completions` call it.')
    .argument('[words...]', 'the words after `admin-mirror`, the last one perhaps unfinished')
    .action((words: string[]) => complete(context, words));
}

type Names = () => readonly string[] | Promise<readonly string[]>;

async function complete(context: CliContext, words: string[]): Promise<void> {
  const program = await wholeProgram(context, (name) => !own.includes(name));
  const root = tab(program, { completionCommandName: 'completions' });
  const last = words.at(-1) ?? '';
  const files = filesAt(context.folder, last.slice(last.indexOf('=') + 1));
  const known: Readonly<Record<string, Names>> = {
    profile: () => context.serversOfConfig().flatMap(({ profile }) => profile ?? []),
    batch: async () => ((await (await lookAtJournal(context))?.batches()) ?? []).map(({ batch }) => batch),
    name: () => reportsOf(context),
    table: () => tablesOf(context),
    what: async () => [...(await read('table')), ...(await read('name')).map((name) => `report:${name}`)],
    resource: () => resourceNames,
    file: () => files,
    folder: () => files,
  };
  const read = async (name: string): Promise<readonly string[]> => {
    try {
      return (await known[name]?.()) ?? [];
    } catch {
      // A mirror, a journal or a config file that cannot be read has no names to offer.
      return [];
    }
  };
  for (const command of [root, ...root.commands.values()]) {
    const path = command.value.split(' ').filter((word) => word !== '');
    // Only what this line can need is read.
    if (!path.every((word) => words.includes(word))) continue;
    for (const [name, argument] of command.arguments) {
      if (argument.handler !== undefined || known[name] === undefined) continue;
      const names = await read(name);
      argument.handler = (offer) => names.forEach((each) => offer(each, ''));
    }
    for (const { long, flags } of path.reduce(partOf, program).options) {
      const [, name = ''] = /<(profile|file|folder|name)>/.exec(flags) ?? [];
      const option = command.options.get(long?.slice(2) ?? '');
      if (option === undefined || (name === 'name' && long !== '--profile')) continue;
      const names = await read(name === 'name' ? 'profile' : name);
      if (names.length > 0) option.handler = (offer) => names.forEach((each) => offer(each, ''));
    }
    // Every command has the options of the program; the root comes first.
    for (const [name, option] of root.options) {
      if (!command.options.has(name)) command.options.set(name, option);
    }
  }
  root.parse(words);
}

function partOf(command: Command, name: string): Command {
  return command.commands.find((each) => each.name() === name) ?? command;
}

async function reportsOf(context: CliContext): Promise<readonly string[]> {
  return (await openReports(context.settings())).reports.map(({ name }) => name);
}

function tablesOf(context: CliContext): readonly string[] {
  return openReading(context.settings(), context.releases)
    .snapshot()
    .relations()
    .map(({ name }) => name);
}

/** Returns the files that begin as typed. A folder ends with its slash, so that what is in it comes next. */
function filesAt(folder: string, typed: string): readonly string[] {
  const parent = typed.slice(0, typed.lastIndexOf('/') + 1);
  try {
    return readdirSync(resolve(folder, parent), { withFileTypes: true }).map(
      (each) => `${parent}${each.name}${each.isDirectory() ? '/' : ''}`,
    );
  } catch {
    return [];
  }
}
