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

const length = 20_000;
/** A sound expression needs less for all texts together. One that is still busy is looked at more closely. */
const suspectMs = 200;
/** No sound expression needs that long, however busy the machine is. */
const mostMs = 20_000;

const pumps = [
  ...Array.from(' \t\n\r\0axA1.-_"\\/:,;([{<#%?=@&*\'`$|é\u200b'),
  ...'a, 1, 1. a. a= a@ a: "a \\" \\\\ -- /* () [] "" \'\''.split(' '),
  'a ',
  ' a=',
  '\n ',
  '\r\n',
];

/** The plain words of an expression: a text that holds them comes further. */
function wordsOf(source: string): string[] {
  const plain = source.replaceAll(/\[(?:\\.|[^\]\\])*\]|\\.|\{[\d,]*\}|\(\?[:=!<]*/gs, '\n');
  return [...new Set(plain.split(/[\n()|^$*+?.]+/).filter((word) => word.length > 1))];
}

type Beginning = readonly [start: string, pump: string, end: string];

function textOf([start, pump, end]: Beginning, size: number): string {
  return start + pump.repeat(Math.ceil(size / pump.length)) + end;
}

const tryTexts = new Script("for (; at < texts.length; at += 1) texts[at].replace(pattern, '')");

/** Whether the script ended within the time, and the processor time that it took, µs. */
function run(world: object, timeout: number): { readonly isDone: boolean; readonly cost: number } {
  const before = process.threadCpuUsage();
  let isDone = true;
  try {
    tryTexts.runInContext(createContext(world), { timeout });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    isDone = false;
  }
  return { isDone, cost: process.threadCpuUsage(before).user };
}

const parts = 16;

/** Whether a whole text takes much longer than its parts, one after the other: four times is far from one and from sixteen. */
function isSlow(pattern: RegExp, beginning: Beginning): boolean {
  const whole = run({ pattern, texts: [textOf(beginning, length)], at: 0 }, mostMs);
  const pieces = Array.from({ length: parts }, () => textOf(beginning, length / parts));
  const apart = run({ pattern, texts: pieces, at: 0 }, mostMs);
  return !whole.isDone || !apart.isDone || (whole.cost > 50_000 && whole.cost > 4 * apart.cost);
}

/** How a text begins that the expression takes too long for; undefined if there is none. */
function slowText({ source, flags }: Pattern): string | undefined {
  const pattern = new RegExp(source, flags);
  const words = wordsOf(source);
  const beginnings = [...pumps, ...words, ...words.map((word) => `${word}a`)].flatMap((pump) =>
    ['', 'é', ...words.slice(0, 2)].flatMap((start) => ['', 'é!\n!'].map((end): Beginning => [start, pump, end])),
  );
  const texts = beginnings.map((each) => textOf(each, length));
  for (let at = 0; ;) {
    const world = { pattern, texts, at };
    if (run(world, suspectMs).isDone) return undefined;
    const suspect = beginnings[world.at];
    if (suspect === undefined) return undefined;
    // Once more: a busy machine, or the collector, may have taken the time.
    if (isSlow(pattern, suspect) && isSlow(pattern, suspect)) return JSON.stringify(suspect);
    at = world.at + 1;
  }
}

const all = globSync('**/*.ts', { cwd: root }).flatMap(patternsIn);

// proves: slow-patterns
test('no regular expression takes much longer than its text is long', () => {
  expect(all.length).toBeGreaterThan(100);
  const slow = all.flatMap((pattern) => {
    const text = slowText(pattern);
    return text === undefined ? [] : [`${pattern.place}: /${pattern.source}/${pattern.flags} on ${text}…`];
  });
  expect(slow).toEqual([]);
});
