/** What a person types as the text of a flag or an argument arrives as that text, whatever it looks like. */
import { PassThrough } from 'node:stream';
import type { Command, Option } from 'commander';
import { describe, expect, test } from 'vitest';
import { type CommandRow, commands } from '../../src/cli/commands.ts';
import { type CliContext, createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import type { CommandCall } from '../../src/model/job.ts';
import { newUser } from '../support/bulk.ts';
import { bulkWorld, made } from '../support/bulk-cli.ts';
import { invoke } from '../support/invoke.ts';

const words = ['--quiet', '-V', '--config=x', '--', '-5', ''];

/** What reached the action of a command. */
interface Seen {
  readonly path: string;
  readonly args: readonly string[];
  readonly own: Readonly<Record<string, unknown>>;
  readonly global: Readonly<Record<string, unknown>>;
  /** The names of the options of every command that were given. */
  readonly common: readonly string[];
}

/** Runs a command line on the real definitions; only parsers and required flags are left out, and each action records its input. */
async function arrivalOf(argv: readonly string[] | CommandCall): Promise<Seen | string> {
  let seen: Seen | undefined;
  const record = (command: Command, context: CliContext, path: string): void => {
    const name = `${path} ${command.name()}`.trim();
    const given = [...command.options.map((each) => each.makeOptionMandatory(false)), ...command.registeredArguments];
    for (const each of given) Object.assign(each, { parseArg: undefined });
    for (const each of command.commands) record(each, context, name);
    if (command.commands.length > 0) return;
    command.action(() => {
      const hidden = new Set(command.options.filter((each) => each.hidden).map((each) => each.attributeName()));
      const own = Object.fromEntries(Object.entries(command.opts()).filter(([option]) => !hidden.has(option)));
      seen = { path: name, args: command.args, own, global: context.flags(), common: Object.keys(context.flags()) };
    });
  };
  const recorded = (row: CommandRow): CommandRow => ({
    ...row,
    load: async () => {
      const { define } = await row.load();
      return {
        define: (program, context) => {
          define(program, context);
          for (const each of program.commands) record(each, context, '');
        },
      };
    },
  });
  const { stdout, stderr } = await invoke(argv, { commands: commands.map(recorded) });
  return seen ?? `${stdout}${stderr}`;
}

function leavesOf(command: Command, path: readonly string[] = []): { path: readonly string[]; command: Command }[] {
  if (command.commands.length === 0) return command.name() === 'help' ? [] : [{ path, command }];
  return command.commands.flatMap((each) => leavesOf(each, [...path, each.name()]));
}

async function definitions() {
  const stream = new PassThrough() as unknown as NodeJS.WriteStream;
  const world = { stdout: stream, stderr: stream, stdin: () => process.stdin, environment: {}, folder: '/' };
  const program = await wholeProgram(createContext({ ...world, signal: new AbortController().signal }, () => ({})));
  return { program, leaves: leavesOf(program) };
}

const { program, leaves } = await definitions();

const takesText = (option: Option): boolean => option.required && !option.hidden;

/** The ways to write a flag before its value. */
const spellings = ({ long, short }: Option): string[] => [long, short].filter((each) => typeof each === 'string');

/** Words for the arguments that the command cannot do without. */
const needed = ({ registeredArguments }: Command): string[] =>
  registeredArguments.filter((each) => each.required).map((each) => each.name());

describe('text that looks like an option arrives as text', () => {
  // proves: typed-options
  test.each(leaves.map(({ path, command }) => [path.join(' '), path, command] as const))(
    'after each flag, and as each argument, of `%s`',
    async (name, path, command) => {
      const places = needed(command);
      for (const word of words) {
        for (const option of command.options.filter(takesText)) {
          const value = option.variadic ? [word] : word;
          for (const flag of spellings(option)) {
            const seen = await arrivalOf([...path, flag, word, ...(option.variadic ? ['--'] : []), ...places]);
            expect(seen, `${flag} ${word}`).toMatchObject({ path: name, args: places, common: [] });
            expect((seen as Seen).own, `${flag} ${word}`).toMatchObject({ [option.attributeName()]: value });
          }
        }
        const last = command.registeredArguments.map(() => word);
        const seen = await arrivalOf([...path, '--', ...last]);
        expect(seen, `-- ${word}`).toMatchObject({ path: name, args: last, common: [] });
      }
    },
  );

  test('after each flag of every command, before and after the name of the command', async () => {
    for (const option of program.options.filter(takesText)) {
      for (const word of words) {
        for (const argv of [
          [option.long ?? '', word, 'users', 'get', '7'],
          ['users', option.long ?? '', word, 'get', '7'],
          ['users', 'get', '7', option.long ?? '', word],
        ]) {
          const global = { [option.attributeName()]: word };
          expect(await arrivalOf(argv)).toMatchObject({ path: 'users get', args: ['7'], global });
        }
      }
    }
  });
});

test.each(leaves.map(({ path, command }) => [path.join(' '), path, command] as const))(
  'text in a job, which is a command as data, arrives as text: `%s`',
  async (name, path, command) => {
    for (const word of words) {
      const operands = command.registeredArguments.map(() => word);
      for (const option of command.options.filter(takesText)) {
        const value = option.variadic ? [word] : word;
        const call = { path, operands, options: { [(option.long ?? '').slice('--'.length)]: value } };
        const seen = await arrivalOf(call);
        expect(seen, `${option.long} ${word}`).toMatchObject({ path: name, args: operands, common: [] });
        expect((seen as Seen).own, `${option.long} ${word}`).toMatchObject({ [option.attributeName()]: value });
      }
    }
  },
);

test.each(['config', 'base-url', 'quiet', 'json', 'db', 'nothing'])(
  'a job cannot have the option %s, which is not of its command',
  async (name) => {
    const seen = await arrivalOf({ path: ['sync'], operands: [], options: { [name]: 'x' } });
    expect(seen).toContain(`sync has no option "${name}"`);
  },
);

describe('an option of every command', () => {
  test.each([
    ['--quiet users update-balance 7 --description x --type add'],
    ['users --quiet update-balance 7 --description x --type add'],
    ['users update-balance --quiet 7 --description x --type add'],
    ['users update-balance 7 --description x --quiet --type add'],
    ['users update-balance 7 --description x --type add --quiet'],
  ])('is one wherever a flag can stand: %s', async (line) => {
    expect(await arrivalOf(line.split(' '))).toEqual({
      path: 'users update-balance',
      args: ['7'],
      own: { description: 'x', type: 'add' },
      global: { quiet: true },
      common: ['quiet'],
    });
  });
});

test.each([
  ['bulk run balance rows.csv --reason', '--reason <text>'],
  ['users get 7 --config', '--config <file>'],
])('a flag whose value is missing is named: %s', async (line, flag) => {
  const { code, stderr } = await invoke(line.split(' '));
  expect(stderr).toContain(`error: option '${flag}' argument missing\n`);
  expect(code).toBe(2);
});

describe('on a server', () => {
  test('a rehearsal whose reason is --quiet pays nobody', async () => {
    const { sandbox, command, file } = await bulkWorld();
    expect(await command(['sync', 'users'])).toMatchObject({ code: 0 });
    const rows = file('user_id,type,amount\n1,add,5\n2,add,5\n');
    const run = ['bulk', 'run', 'balance', rows, '--again', '--reason', '--quiet', '--rehearse', '--yes'];
    expect(await command(run)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Nothing was sent to the server'),
    });
    expect(made(sandbox)).toBe(0);
  });

  test.each(['-V', '--yes', '--help', '--json', '--'])('a balance is changed with the description %s', async (text) => {
    const { sandbox, command } = await bulkWorld();
    const change = ['users', 'update-balance', String(newUser(sandbox, 10)), '--type', 'add', '--amount', '5'];
    expect(await command([...change, '--description', text])).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--yes'),
    });
    expect(made(sandbox)).toBe(0);
    expect(await command([...change, '--description', text, '--yes'])).toMatchObject({ code: 0 });
    expect(sandbox.control.ledger().map(({ body }) => body)).toEqual([expect.objectContaining({ description: text })]);
  });
});
