import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { mirrorColumns } from '../../src/store/schema.ts';
import { dictionary } from '../../src/data/dictionary.ts';
import type { ExitCode } from '../../src/model/errors.ts';
import {
  blocksOf,
  codeSpansOf,
  documentNames,
  projectFolder,
  sectionOf,
  tableRows,
  textOf,
} from '../support/documents.ts';

/** Every exit code, by the type itself: the compiler refuses this where one is missing or too many. */
const exitCodes: Readonly<Record<ExitCode, true>> = {
  0: true,
  1: true,
  2: true,
  3: true,
  4: true,
  5: true,
  6: true,
  7: true,
  8: true,
  130: true,
  143: true,
};

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

async function program(): Promise<Command> {
  const { stdout, stderr, stdin } = process;
  const signal = new AbortController().signal;
  return wholeProgram(
    createContext({ stdout, stderr, stdin, signal, environment: {}, folder: projectFolder }, () => ({})),
  );
}

/** The spans of code in the first cells of a table, `sync [resource…]` as `sync`. */
function firstCells(section: string): string[] {
  return tableRows(section).flatMap(([cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.split(' ')[0] ?? ''),
  );
}

describe('README.md', () => {
  test('explains every exit code, and no other', () => {
    const codes = tableRows(sectionOf('README.md', 'Exit codes')).map(([code]) => Number(code));
    expect(codes).toEqual(Object.keys(exitCodes).map(Number));
  });

  test('lists exactly the commands that the help lists', () => {
    const shown = commands.filter(({ hidden }) => hidden !== true).map(({ name }) => name);
    expect(firstCells(sectionOf('README.md', 'Commands')).sort()).toEqual(shown.sort());
  });

  test('has a map of the house with exactly what lies in src/', () => {
    const lying = readdirSync(join(projectFolder, 'src'), { withFileTypes: true })
      .filter(({ name }) => name !== 'tsconfig.json')
      .map((each) => (each.isDirectory() ? `${each.name}/` : each.name));
    expect(firstCells(sectionOf('README.md', 'Map of the house')).sort()).toEqual(lying.sort());
  });

  test('names every table and view of the mirror, and every column that the mirror adds', () => {
    const section = sectionOf('README.md', 'What the mirror file holds');
    expect(firstCells(section).sort()).toEqual(
      dictionary()
        .map(({ name }) => name)
        .sort(),
    );
    for (const column of mirrorColumns) expect(section).toContain(`\`${column}\``);
  });
});

describe.each(documentNames)('%s', (name) => {
  test('names only flags, commands and scripts that exist', async () => {
    const known = everyCommand(await program());
    const flags = new Set(known.flatMap((each) => each.options.map(({ long }) => long)));
    const names = new Set(known.map((each) => each.name()));
    const { scripts } = JSON.parse(textOf('package.json')) as { scripts: Record<string, string> };
    const texts = [...codeSpansOf(name), ...blocksOf(name).flatMap(({ lines }) => lines)];
    const wrong = texts.flatMap((text) => {
      const unknownFlags = /^(npm|git|curl|chmod|kill)/.test(text)
        ? []
        : [...text.matchAll(/(?<![\w-])--[a-z][a-z-]*/g)].map(([flag]) => flag).filter((flag) => !flags.has(flag));
      const unknownCommands = [...text.matchAll(/admin-mirror ([a-z]+)/g)]
        .map(([, command = '']) => command)
        .filter((command) => !names.has(command));
      const unknownScripts = [...text.matchAll(/npm run (?:-s )?([\w:]+)/g)]
        .map(([, script = '']) => script)
        .filter((script) => scripts[script] === undefined);
      return [...unknownFlags, ...unknownCommands, ...unknownScripts];
    });
    expect(wrong).toEqual([]);
  });

  test('has few blocks that are not run', () => {
    const blocks = blocksOf(name);
    expect(blocks.filter(({ language }) => language !== 'sh' && language !== 'text')).toEqual([]);
    expect(blocks.filter(({ language }) => language === 'text').length).toBeLessThanOrEqual(3);
  });
});
