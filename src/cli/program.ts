/** Runs a command line: loads the command that it names, and turns every failure into one message and an exit code. */
import { Command, CommanderError, Help, type HelpConfiguration, Option } from 'commander';
import { systemError } from '../model/files.ts';
import { type ExitCode, InterruptedError, OperatorError, suggestion, UsageError } from '../model/errors.ts';
import { settingTable } from '../settings/table.ts';
import { type CommandRow, commands, groups } from './commands.ts';
import { type CliContext, type CliWorld, createContext, interruptionOf } from './context.ts';
import { printError, printOutcome } from './output.ts';
import { type CommandCall, wordsOf } from '../model/job.ts';
import { version } from '../model/program.ts';
import type { ChildOutput } from '../worker/run-job.ts';

/** Runs one command line, or a command as data, to its end. Never throws. Tests pass commands of their own. */
export async function run(
  command: readonly string[] | CommandCall,
  world: CliWorld,
  rows: readonly CommandRow[] = commands,
): Promise<ExitCode> {
  const program = bareProgram();
  let name = '';
  const context = createContext(world, () => ({ ...commonFlagsIn(program), ...flagsOf(world.given?.output) }));
  try {
    const words = 'path' in command ? wordsOf(command) : command;
    name = commandIn(words);
    await defineCommands(program, context, rows, (row) => row.name === name);
    if ('path' in command) checkOptions(command, program);
    // Only now are the flags of the command known.
    await program.parseAsync(words, { from: 'user' });
    await context.releases.close();
    return context.exitCode();
  } catch (error) {
    // Report the failure of the command itself, not a later one of closing.
    await context.releases.close().catch(() => {});
    return failed(context, error, stopped[name]);
  }
}

const nothingWritten = 'Nothing was written: a file appears whole or not at all.';

/** What a command leaves behind that somebody stops, and what goes on next time. `bulk` says it with the name of the batch. */
const stopped: Readonly<Record<string, string>> = {
  sync: 'What was read is kept. The next `admin-mirror sync` goes on from there.',
  verify: 'Nothing was changed. The next `admin-mirror verify` compares everything again.',
  export: nothingWritten,
  snapshot: nothingWritten,
  backup: 'No backup was made, and earlier ones are as they were.',
  restore: 'A file is in its place whole or not at all, and what was there is kept beside it. To go on, run it again.',
  publish: 'Readers there see what was published before. The next `admin-mirror publish` writes what changed since.',
};

/** Returns the program with every command loaded, for completions and the tests of the help. */
export async function wholeProgram(
  context: CliContext,
  isWanted: (name: string) => boolean = () => true,
): Promise<Command> {
  const program = bareProgram();
  const rows = commands.filter(({ name }) => isWanted(name));
  await defineCommands(program, context, rows, () => true);
  return program.configureHelp({});
}

function bareProgram(): Command {
  const program = new Command('admin-mirror')
    .description('A local SQLite mirror of an Administration API, with exports, queries and every operation.')
    .usage('<command> [options]')
    .version(version(), '-V, --version', 'print the version')
    .helpOption('-h, --help', 'show help')
    .helpCommand(false)
    // A word after a command is that command's: the text after --reason is never taken for an option of the program.
    .enablePositionalOptions()
    .optionsGroup('Options of every command:');
  for (const option of commonOptions()) program.addOption(option);
  return program;
}

/** The options of the program and of every command in it. */
function commonOptions(): Option[] {
  return [
    ...settingTable.flatMap(({ flag, meaning }) => (flag === null ? [] : [new Option(flag, meaning)])),
    new Option('--json', 'print the result as one JSON document'),
    new Option('--quiet', 'print only the result and problems').conflicts('verbose'),
    new Option('--verbose', 'print more detail while it runs'),
    new Option('--no-color', 'print without colours, like NO_COLOR'),
  ];
}

const commonNames = commonOptions().map((each) => each.attributeName());

/** Returns the values of the common options that were given, wherever they stand. */
function commonFlagsIn(command: Command): Readonly<Record<string, string | boolean>> {
  const own = commonNames
    .filter((name) => command.getOptionValueSource(name) === 'cli')
    .map((name) => [name, command.getOptionValue(name) as string | boolean] as const);
  return Object.assign(Object.fromEntries(own), ...command.commands.map(commonFlagsIn)) as Record<string, string>;
}

/** Returns the global flags of a command whose settings were given: those are no flags any more. */
function flagsOf(output: ChildOutput | undefined): Readonly<Record<string, boolean>> {
  if (output === undefined) return {};
  if (output.kind === 'report') return { json: true };
  const { json, quiet, color } = output;
  return { json, quiet, color };
}

/** Throws an error if the data have an option that is not the command's own. One of the whole program would change the settings. */
function checkOptions({ path, options }: CommandCall, program: Command): void {
  let command: Command | undefined = program;
  for (const name of path) command = command?.commands.find((each) => each.name() === name);
  const own = new Set(command?.options.filter(({ hidden }) => !hidden).map(({ long }) => long));
  const strange = Object.keys(options).find((name) => !own.has(`--${name}`));
  if (strange !== undefined) throw new UsageError(`${path.join(' ')} has no option "${strange}"`);
}

/** Returns the name of the command in the words; '' if there is none. */
function commandIn(words: readonly string[]): string {
  const reader = new Command().exitOverride().configureOutput({ outputError: () => {} });
  for (const option of commonOptions()) reader.addOption(option);
  try {
    const [first, second] = reader.parseOptions([...words]).operands;
    return (first === 'help' ? second : first) ?? '';
  } catch {
    // A value is missing. The program reports it.
    return '';
  }
}

async function defineCommands(
  program: Command,
  context: CliContext,
  rows: readonly CommandRow[],
  isLoaded: (row: CommandRow) => boolean,
): Promise<void> {
  const modules = await Promise.all(rows.filter(isLoaded).map((each) => each.load()));
  for (const each of new Set(modules)) each.define(program, context);
  for (const row of rows) completeRow(program, row);
  defineHelp(program);
  const order = [...rows.map((each) => each.name), 'help'];
  // The help lists commands in the order in which they were added.
  (program.commands as Command[]).sort((a, b) => order.indexOf(a.name()) - order.indexOf(b.name()));
  quiet(program, rows, context.stdout);
}

/** Adds the summary and the help group to a loaded command, or defines a placeholder for one that was not loaded. */
function completeRow(program: Command, row: CommandRow): void {
  const hidden = row.hidden ?? false;
  const loaded = program.commands.find((each) => each.name() === row.name);
  const command = loaded ?? program.command(row.name, { hidden });
  command.summary(row.summary).helpGroup(row.group);
  if (loaded !== undefined && hidden) {
    // Commander can hide a command only when it is added.
    (program.commands as Command[]).splice(program.commands.indexOf(loaded), 1);
    program.addCommand(loaded, { hidden });
  }
}

function defineHelp(program: Command): void {
  program
    .command('help')
    .summary('show the help of a command')
    .description('Show the help of a command.')
    .argument('[command...]', 'the command, and its subcommand if it has any')
    .option('--all', 'every command, and the options of every command')
    .helpGroup(groups.about)
    .action((path: string[], { all }: { readonly all?: true }) => {
      let command = all === true ? program.configureHelp({}) : program;
      for (const name of path) {
        const next = command.commands.find((each) => each.name() === name);
        const known = command.createHelp().visibleCommands(command);
        if (next === undefined && known.length === 0) throw new UsageError(`"${command.name()}" has no subcommands`);
        if (next === undefined) {
          const advice = suggestion(
            name,
            known.map((each) => each.name()),
          );
          throw new UsageError(`unknown command "${name}"`, { advice });
        }
        command = next;
      }
      command.outputHelp();
    });
}

/** Makes commander throw its errors, which only `failed` prints, and write help and version to the stream. */
function quiet(program: Command, rows: readonly CommandRow[], stream: NodeJS.WriteStream): void {
  const columns = stream.isTTY ? stream.columns : 80;
  program
    .exitOverride()
    .configureOutput({
      writeOut: (text) => stream.write(text),
      writeErr: () => {},
      outputError: () => {},
      getOutHelpWidth: () => columns,
    })
    .configureHelp(firstHelp(program, rows))
    .addHelpText('afterAll', ({ command }) => moreHelp(command, program, rows, columns));
  for (const each of program.commands) inherit(each, program);
}

/** The first page of the help has the commands that most people need. `help --all` is the whole. */
function firstHelp(program: Command, rows: readonly CommandRow[]): HelpConfiguration {
  const first = new Set(rows.filter((row) => row.first === true).map(({ name }) => name));
  return {
    // Not by hiding the rest: commander would no longer suggest it for a misspelt word.
    formatHelp: (command, { helpWidth = 80 }) => {
      const short: HelpConfiguration = {
        visibleCommands: (from) => new Help().visibleCommands(from).filter((each) => first.has(each.name())),
        visibleOptions: () => [],
      };
      return new Help().formatHelp(command, Object.assign(new Help(), { helpWidth }, command === program ? short : {}));
    },
  };
}

/** One line each about what the help of a command leaves out; nothing if it is the whole. */
function moreHelp(command: Command, program: Command, rows: readonly CommandRow[], columns: number): string {
  if (program.configureHelp().formatHelp === undefined) return '';
  const options = program.options.flatMap(({ long }) => (long === '--version' ? [] : [long]));
  const more = rows.filter((row) => row.first !== true && row.hidden !== true).map(({ name }) => name);
  const lines = [
    ...(command === program ? [`More commands: ${more.join(', ')}`] : []),
    `Options of every command: ${options.join(' ')}`,
    command === program ? '`help --all` explains them, `help <command>` one command.' : '`help --all` explains them.',
  ];
  return `\n${lines.map((line) => new Help().boxWrap(line, columns)).join('\n')}`;
}

function inherit(command: Command, from: Command, before = ''): void {
  const path = `${before}${command.name()}`;
  command.copyInheritedSettings(from).exitOverride((error) => {
    throw error.exitCode === 0 ? error : usageError(error, path);
  });
  for (const option of commonOptions()) command.addOption(option.hideHelp());
  for (const each of command.commands) inherit(each, command, `${path} `);
}

function failed(context: CliContext, error: unknown, ifStopped = ''): ExitCode {
  if (error instanceof CommanderError && error.exitCode === 0) return 0;
  const explained = explain(context, error);
  printError(context, explained);
  if (explained instanceof InterruptedError && ifStopped !== '') printOutcome(context, ifStopped);
  return explained instanceof OperatorError ? explained.exitCode : 1;
}

/** Returns the error as the operator should see it. A bug stays as it is. */
function explain(context: CliContext, error: unknown): unknown {
  if (error instanceof CommanderError) return usageError(error, '');
  if (error instanceof OperatorError) return error;
  // Whatever an interrupted part throws, the interruption is the reason.
  return interruptionOf(context.signal) ?? systemError(error) ?? error;
}

/** Commander's message has what is wrong on the first line, and the nearest name on the second. @param path such as `bulk plan` */
function usageError(error: CommanderError, path: string): UsageError {
  const help =
    path === ''
      ? 'Run `admin-mirror help` for a list of commands, or `admin-mirror help <command>` for the flags of one.'
      : `Run \`admin-mirror help ${path}\` to see its arguments and flags.`;
  if (error.code === 'commander.help') return new UsageError('no command was given', { advice: help });
  const [problem = '', nearest] = error.message.replace('error: ', '').split('\n');
  return new UsageError(problem, { advice: nearest ?? help });
}
