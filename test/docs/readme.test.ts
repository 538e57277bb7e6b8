import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { createContext } from '../../src/cli/context.ts';
import { wholeProgram } from '../../src/cli/program.ts';
import { readSettings } from '../../src/settings/settings.ts';
import {
  blocksOf,
  codeSpansOf,
  documentNames,
  projectFolder,
  proseOf,
  sectionOf,
  tableRows,
  textOf,
} from '../support/documents.ts';
import { invoke } from '../support/invoke.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function everyCommand(command: Command): Command[] {
  return [command, ...command.commands.flatMap(everyCommand)];
}

async function program(): Promise<Command> {
  const { stdout, stderr } = process;
  const stdin = () => process.stdin;
  const signal = new AbortController().signal;
  return wholeProgram(
    createContext({ stdout, stderr, stdin, signal, environment: {}, folder: projectFolder }, () => ({})),
  );
}

/** The code spans in the first cells of a table; `sync [resource…]` counts as `sync`. */
function firstCells(section: string): string[] {
  return tableRows(section).flatMap(([cell = '']) =>
    [...cell.matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.split(' ')[0] ?? ''),
  );
}

describe('README.md', () => {
  test('has at most 150 lines', () => {
    expect(textOf('README.md').split('\n').length).toBeLessThanOrEqual(151);
  });

  test('links to every other document, or to one that does', () => {
    const linksOf = (name: string) =>
      [...proseOf(name).matchAll(/\]\(([^)#]+)/g)].map(([, target = '']) => join(dirname(name), target));
    const linked = linksOf('README.md');
    const further = linked.filter((name) => documentNames.includes(name)).flatMap(linksOf);
    const known = new Set(['README.md', ...linked, ...further]);
    expect(documentNames.filter((name) => !known.has(name))).toEqual([]);
  });

  test('shows the picture that its own command draws (UPDATE_DOCS=1 draws it again)', async () => {
    const [, sql = ''] = /query "([^"]+)" --chart users-by-month\.svg/.exec(textOf('README.md')) ?? [];
    const folder = temporaryFolder();
    const sandbox = await startSandbox({ users: 2_000, packages: 0, emails: 0, coupons: 0 });
    await sync(sandbox, join(folder, 'mirror.db'), { resources: ['users'] });
    const { code, stderr } = await invoke(['query', sql, '--chart', 'drawn.svg', '--db', 'mirror.db'], { folder });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    const drawn = readFileSync(join(folder, 'drawn.svg'), 'utf8');
    const picture = 'docs/users-by-month.svg';
    if (process.env['UPDATE_DOCS'] === '1') writeFileSync(join(projectFolder, picture), drawn);
    expect(textOf('README.md')).toContain(`](${picture})`);
    expect(textOf(picture)).toBe(drawn);
  });
});

describe('docs/development.md', () => {
  test('has a map of exactly what is in src/', () => {
    const lying = readdirSync(join(projectFolder, 'src'), { withFileTypes: true })
      .filter(({ name }) => name !== 'tsconfig.json')
      .map((each) => (each.isDirectory() ? `${each.name}/` : each.name));
    expect(firstCells(sectionOf('docs/development.md', 'The map')).sort()).toEqual(lying.sort());
  });
});

describe('docs/analysts.md', () => {
  test('explains every column that the mirror adds', () => {
    const section = sectionOf('docs/analysts.md', 'What the file holds');
    for (const column of ['_extra', '_first_seen_at', '_changed_at']) expect(section).toContain(`\`${column}\``);
  });
});

// docs/commands.md contains only printed help.
describe.each(documentNames.filter((name) => name !== 'docs/commands.md'))('%s', (name) => {
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
      const unknownScripts = [...text.matchAll(/npm run (?:-s )?([\w:-]+)/g)]
        .map(([, script = '']) => script)
        .filter((script) => scripts[script] === undefined);
      return [...unknownFlags, ...unknownCommands, ...unknownScripts];
    });
    expect(wrong).toEqual([]);
  });

  test('has valid blocks of settings', () => {
    for (const { lines } of blocksOf(name).filter((block) => block.language === 'yaml')) {
      const folder = temporaryFolder();
      mkdirSync(join(folder, 'config'));
      writeFileSync(join(folder, 'config', 'admin-mirror.yaml'), lines.join('\n'));
      expect(readSettings({ flags: [], environment: {}, folder }).problems).toEqual([]);
    }
  });

  test('has few blocks that are not checked', () => {
    const blocks = blocksOf(name);
    expect(blocks.filter(({ language }) => !['sh', 'console', 'text', 'yaml'].includes(language))).toEqual([]);
    expect(blocks.filter(({ language }) => language === 'text').length).toBeLessThanOrEqual(3);
  });
});
