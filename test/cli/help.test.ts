import { PassThrough } from 'node:stream';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { dayMs, momentForms, parseMoment } from '../../src/model/time.ts';
import { invoke } from '../support/invoke.ts';
import { commandsDocument } from '../support/commands-document.ts';

const stream = Object.assign(new PassThrough(), { isTTY: false }) as unknown as NodeJS.WriteStream & NodeJS.ReadStream;
const context = createContext(
  { stdout: stream, stderr: stream, stdin: () => stream, signal: AbortSignal.abort(), environment: {}, folder: '/' },
  () => ({}),
);
const program = await wholeProgram(context);

interface Named {
  readonly path: string;
  readonly command: Command;
}

/** The command and all its subcommands, including hidden ones. */
function withParts(command: Command, path: string): Named[] {
  return [{ path, command }, ...command.commands.flatMap((each) => withParts(each, `${path} ${each.name()}`))];
}

const all = withParts(program, 'admin-mirror');
const flags = all.flatMap(({ path, command }) => command.options.map((option) => ({ path, option })));

describe('the help', () => {
  test.each(all)('of `$path` says what it does', ({ command }) => {
    expect(command.description()).not.toBe('');
  });

  test('is docs/commands.md (vitest -u writes it again)', async () => {
    await expect(commandsDocument(program)).toMatchFileSnapshot('../../docs/commands.md');
  });

  test('gives examples of times that are accepted', () => {
    const times = all
      .flatMap(({ command }) => command.options)
      .filter(({ flags, description }) => flags.endsWith('<time>') && /\b7d\b/.test(description));
    expect(times.length).toBeGreaterThan(3);
    for (const { description } of times) expect(description).toMatch(/\b7d for seven days ago\b/);
    expect([parseMoment('7d', dayMs * 8), parseMoment('7d ago', dayMs * 8)]).toEqual([dayMs, undefined]);
  });

  test('of every flag that takes a time means the same words, and its error is one sentence', () => {
    const times = flags.filter(({ option }) => /<(?:time|day|date)>$/.test(option.flags));
    expect(times.length).toBeGreaterThan(8);
    for (const { path, option } of times) {
      const parse = (text: string): unknown => {
        try {
          return option.parseArg?.(text, undefined);
        } catch (error) {
          return String(error);
        }
      };
      for (const text of ['7d', '2026-03-11', '2026-03-11 10:00', '2026-03-11T10:00:00Z']) {
        expect([path, option.long, parse(text)]).toEqual([path, option.long, expect.not.stringMatching(/It must be/)]);
      }
      expect([path, option.long, parse('yesterday')]).toEqual([
        path,
        option.long,
        `InvalidArgumentError: It must be ${momentForms}.`,
      ]);
    }
  });

  test('lists exactly the visible commands, and help', () => {
    const listed = program.createHelp().visibleCommands(program);
    const names = commands.filter((each) => each.hidden !== true).map((each) => each.name);
    expect(listed.map((each) => each.name())).toEqual([...names, 'help']);
  });
});

describe('the first page of the help', () => {
  test('has at most 14 commands in three groups, and names every other one', async () => {
    const { stdout } = await invoke(['--help']);
    const shown = [...stdout.matchAll(/^ {2}(\w+) /gm)].map(([, name]) => name);
    expect(shown.length).toBeLessThanOrEqual(14);
    expect(stdout.match(/^\w.*:$/gm)).toHaveLength(3);
    const [, more = ''] = /More commands: ([^:]*)\nOptions/.exec(stdout) ?? [];
    const all = commands.filter((each) => each.hidden !== true).map((each) => each.name);
    expect(new Set([...shown, ...more.trim().split(/,\s+/)])).toEqual(new Set(all));
  });
});

describe('every flag', () => {
  test.each(flags)('of `$path` has a description', ({ option }) => {
    expect(option.description).toMatch(/^\S/);
  });
});
