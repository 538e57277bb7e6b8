/**
 * Every regular expression of the sources, tried on texts that make a careless one try again from each character. Sheets, servers,
 * forms and files may hold such a text, and nothing can stop an expression that runs: neither Ctrl+C nor another request.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createContext, Script } from 'node:vm';
import { parseSync, Visitor } from 'rolldown/utils';
import { expect, test } from 'vitest';

const root = join(import.meta.dirname, '../../src');

interface Pattern {
  readonly place: string;
  readonly source: string;
  readonly flags: string;
}

function patternsIn(file: string): Pattern[] {
  const text = readFileSync(join(root, file), 'utf8');
  const patterns: Pattern[] = [];
  const placeOf = ({ start }: { readonly start: number }) => `${file}:${text.slice(0, start).split('\n').length}`;
  const visitor = new Visitor({
    Literal: (node) => {
      if (!('regex' in node)) return;
      const { pattern: source, flags } = node.regex;
      patterns.push({ place: placeOf(node), source, flags });
    },
    NewExpression: (node) => {
      const [given, flags] = node.arguments;
      if (node.callee.type !== 'Identifier' || node.callee.name !== 'RegExp' || given === undefined) return;
      const template = given.type === 'TaggedTemplateExpression' ? given.quasi : given;
      if (template.type !== 'TemplateLiteral') return;
      const isRaw = template !== given;
      // Whatever is filled in stands for one letter.
      const source = template.quasis.map(({ value }) => (isRaw ? value.raw : (value.cooked ?? ''))).join('x');
      patterns.push({ place: placeOf(node), source, flags: flags?.type === 'Literal' ? String(flags.value) : '' });
    },
  });
  visitor.visit(parseSync(file, text).program);
  return patterns;
}

const length = 30_000;
/** For one text, a linear expression takes less than a millisecond, a quadratic one about half a second. */
const mostMs = 300;

const pumps = [
  ...Array.from(' \t\n\r\0axA1.-_"\\/:,;([{<#%?=@&*\'`$|é\u200b'),
  'a ',
  'a,',
  '1,',
  '1.',
  'a.',
  'a=',
  'a@',
  'a:',
  '"a',
  '\\"',
  '\\\\',
  '--',
  '/*',
  '()',
  '[]',
  '""',
  "''",
  ' a=',
  '\n ',
  '\r\n',
];

/** The plain words of an expression: a text that holds them comes further. */
function wordsOf(source: string): string[] {
  const plain = source.replaceAll(/\[(?:\\.|[^\]\\])*\]|\\.|\{[\d,]*\}|\(\?[:=!<]*/gs, '\n');
  return [...new Set(plain.split(/[\n()|^$*+?.]+/).filter((word) => word.length > 1))];
}

const tryTexts = new Script(`
  for (; at < beginnings.length; at += 1) {
    const [start, pump, end] = beginnings[at];
    (start + pump.repeat(Math.ceil(length / pump.length)) + end).replace(pattern, '');
  }`);

/** The beginning of a text that the expression takes too long for; undefined if there is none. */
function slowText({ source, flags }: Pattern): string | undefined {
  const words = wordsOf(source);
  const beginnings = [...pumps, ...words, ...words.map((word) => `${word}a`)].flatMap((pump) =>
    ['', 'é', ...words.slice(0, 2)].flatMap((start) => ['', 'é!\n!'].map((end) => [start, pump, end] as const)),
  );
  const world = createContext({ pattern: new RegExp(source, flags), beginnings, length, at: 0 }) as { at: number };
  for (let last = -1; ;) {
    try {
      tryTexts.runInContext(world, { timeout: mostMs });
      return undefined;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    }
    // All of them together may take long on a busy machine, so one counts only if it used up the time alone.
    if (world.at === last) return JSON.stringify(beginnings[last]);
    last = world.at;
  }
}

const all = globSync('**/*.ts', { cwd: root }).flatMap(patternsIn);

test('no regular expression takes much longer than its text is long', () => {
  expect(all.length).toBeGreaterThan(100);
  const slow = all.flatMap((pattern) => {
    const text = slowText(pattern);
    return text === undefined ? [] : [`${pattern.place}: /${pattern.source}/${pattern.flags} on ${text}…`];
  });
  expect(slow).toEqual([]);
});
