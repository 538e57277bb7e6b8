/** The command line as plain words, from which the completion script of any shell is written. */
import type { Argument, Command, Option } from 'commander';
import { resourceNames } from '../model/resources.ts';

interface Word {
  readonly word: string;
  readonly meaning: string;
}

/** What may follow a flag or stand as an argument: one of some words, or the name of a file. */
export type Values = { readonly words: readonly string[] } | { readonly files: true };

export interface CommandWords {
  /** `bulk plan`; empty for the program itself. */
  readonly path: string;
  readonly commands: readonly Word[];
  /** Long and short, this command's own and the global ones. */
  readonly flags: readonly Word[];
  /** The flags that take a value, and what can be said of it. */
  readonly values: readonly { readonly flags: readonly string[]; readonly values: Values | undefined }[];
  readonly argument: Values | undefined;
}

/** Every command that is not hidden, the program first. */
export function wordsOf(program: Command): CommandWords[] {
  return collect(program, '', []);
}

function collect(command: Command, path: string, globals: readonly Option[]): CommandWords[] {
  const help = command.createHelp();
  const options = [...help.visibleOptions(command), ...globals];
  const parts = help.visibleCommands(command);
  const own: CommandWords = {
    path,
    commands: parts.map((each) => ({ word: each.name(), meaning: each.summary() || each.description() })),
    flags: options.flatMap((option) => namesOf(option).map((word) => ({ word, meaning: option.description }))),
    values: options
      .filter((option) => option.required || option.optional)
      .map((option) => ({ flags: namesOf(option), values: valuesOf(option.argChoices, option.flags) })),
    argument: path === 'help' ? commandNames(command) : argumentValues(command.registeredArguments),
  };
  const below = parts.flatMap((each) =>
    collect(each, path === '' ? each.name() : `${path} ${each.name()}`, [...globals, ...visibleGlobals(command, path)]),
  );
  return [...withChoices(own, command.registeredArguments), ...below];
}

/** A word that has to be chosen leads on as a command does: after `bulk plan balance` comes a file. */
function withChoices(own: CommandWords, [first, second]: readonly Argument[]): CommandWords[] {
  if (first?.argChoices === undefined || first.variadic) return [own];
  const choices = first.argChoices.map((word) => ({ word, meaning: '' }));
  const argument = second === undefined ? undefined : valuesOf(second.argChoices, second.name());
  return [
    { ...own, commands: [...own.commands, ...choices], argument: undefined },
    ...choices.map(({ word }) => ({ ...own, path: `${own.path} ${word}`, commands: [], argument })),
  ];
}

/** The program's flags belong to every command; those of a command in between are its own. */
function visibleGlobals(command: Command, path: string): Option[] {
  return path === ''
    ? command
        .createHelp()
        .visibleOptions(command)
        .filter((each) => !isHelp(each))
    : [];
}

function isHelp(option: Option): boolean {
  return option.long === '--help' || option.long === '--version';
}

function namesOf(option: Option): string[] {
  return [option.long, option.short].filter((each) => each !== undefined && each !== null);
}

function commandNames(command: Command): Values {
  const program = command.parent ?? command;
  return {
    words: program
      .createHelp()
      .visibleCommands(program)
      .map((each) => each.name()),
  };
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
