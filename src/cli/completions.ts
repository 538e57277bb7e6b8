/** `completions`: prints the script that teaches a shell this command line. */
import { Argument, type Command, type Option } from 'commander';
import type { CliContext } from './context.ts';
import { printLine } from './output.ts';
import { wholeProgram } from './program.ts';
import { quoted } from '../model/job.ts';
import { resourceNames } from '../model/resources.ts';

/** What can follow a flag or be an argument: one of some words, or the name of a file. */
type Values = { readonly words: readonly string[] } | { readonly files: true };

interface CommandWords {
  /** `bulk plan`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly string[];
  /** Long and short, this command's own and the global ones. */
  readonly flags: readonly string[];
  /** The flags that take a value, and what that value can be, if known. */
  readonly values: readonly { readonly flags: readonly string[]; readonly values: Values | undefined }[];
  readonly argument: Values | undefined;
}

/** Returns the words of this command and all commands below it that are not hidden, this one first. */
function wordsOf(command: Command, path = '', globals: readonly Option[] = []): CommandWords[] {
  const help = command.createHelp();
  const visible = help.visibleOptions(command);
  const options = [...visible, ...globals];
  const parts = help.visibleCommands(command);
  const own: CommandWords = {
    path,
    commands: parts.map((each) => each.name()),
    flags: options.flatMap(namesOf),
    values: options
      .filter((option) => option.required || option.optional)
      .map((option) => ({ flags: namesOf(option), values: valuesOf(option.argChoices, option.flags) })),
    argument: argumentValues(command.registeredArguments),
  };
  // Every command has the program's flags. The flags of a command in between are not inherited.
  const inherited = path === '' ? visible.filter(({ long }) => long !== '--help' && long !== '--version') : globals;
  const below = parts.flatMap((each) => wordsOf(each, `${path} ${each.name()}`.trim(), inherited));
  return [...withChoices(own, command.registeredArguments), ...below];
}

/** An argument with choices leads on like a subcommand: after `bulk plan balance` comes a file. */
function withChoices(own: CommandWords, [first, second]: readonly Argument[]): CommandWords[] {
  if (first?.argChoices === undefined || first.variadic) return [own];
  const choices = first.argChoices;
  const argument = second === undefined ? undefined : valuesOf(second.argChoices, second.name());
  return [
    { ...own, commands: [...own.commands, ...choices], argument: undefined },
    ...choices.map((word) => ({ ...own, path: `${own.path} ${word}`, commands: [], argument })),
  ];
}

function namesOf(option: Option): string[] {
  return [option.long, option.short].filter((each) => each !== undefined && each !== null);
}

function argumentValues(given: readonly Argument[]): Values | undefined {
  const first = given[0];
  if (first === undefined) return undefined;
  if (first.name() === 'resource') return { words: first.argChoices ?? resourceNames };
  return valuesOf(first.argChoices, first.name());
}

function valuesOf(choices: readonly string[] | undefined, name: string): Values | undefined {
  if (choices !== undefined) return { words: choices };
  return /\b(?:file|folder|path)\b/i.test(name) ? { files: true } : undefined;
}

function offer(values: Values | undefined): string {
  if (values === undefined) return 'return';
  return 'files' in values
    ? 'compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); return'
    : `COMPREPLY=($(compgen -W ${quoted(values.words.join(' '))} -- "$current")); return`;
}

/** Returns the script. Its variables must not be called `path` or `words`, which are special in zsh. */
function bashScript(program: Command): string {
  const commands = wordsOf(program);
  // The word after a flag that takes a value is not a command.
  const taking = [...new Set(commands.flatMap((each) => each.values.flatMap(({ flags }) => flags)))].join('|');
  // `help` takes the same words as the program itself.
  const steps = commands
    .flatMap(({ path, commands: next }) =>
      next.filter((word) => word !== 'help').map((word) => quoted(`${path}|${word}`)),
    )
    .join('|');
  const values = commands.flatMap((each) =>
    each.values.map(
      ({ flags, values: known }) =>
        `    ${flags.map((flag) => quoted(`${each.path}|${flag}`)).join('|')}) ${offer(known)};;`,
    ),
  );
  const arms = commands.map(({ path, commands: next, flags, argument }) => {
    const files = argument !== undefined && 'files' in argument ? ' files=1' : '';
    const more = argument !== undefined && 'words' in argument ? argument.words : [];
    return `    ${quoted(path)}) flags=${quoted(flags.join(' '))} parts=${quoted([...next, ...more].join(' '))}${files};;`;
  });
  return `# completion of admin-mirror for bash, and for zsh with bashcompinit
_admin_mirror() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD-1]}" deeper='' flags='' parts='' files='' i
  COMPREPLY=()
  # bash gives "--format=csv" as three words.
  if [[ $current == '=' ]]; then current=''
  elif [[ $previous == '=' ]]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${COMP_WORDS[i]}" in
    ${taking}) ((i++)); [[ \${COMP_WORDS[i]} == '=' ]] && ((i++));;
    *) case "$deeper|\${COMP_WORDS[i]}" in ${steps}) deeper="\${deeper:+$deeper }\${COMP_WORDS[i]}";; esac;;
    esac
  done
  case "$deeper|$previous" in
${values.join('\n')}
  esac
  case "$deeper" in
${arms.join('\n')}
  esac
  if [[ $current == -* ]]; then COMPREPLY=($(compgen -W "$flags" -- "$current"))
  elif [[ -n $files ]]; then compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$current"))
  else COMPREPLY=($(compgen -W "$parts" -- "$current")); fi
}
complete -F _admin_mirror admin-mirror`;
}

const shells = ['bash', 'zsh'] as const;
type Shell = (typeof shells)[number];

export function define(program: Command, context: CliContext): void {
  program
    .command('completions')
    .description('Print the completion script for a shell.')
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
