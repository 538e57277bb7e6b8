/** The project's documents as the tests in test/docs read them: headings, code blocks, links, named files. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const projectFolder = fileURLToPath(new URL('../..', import.meta.url));

/** The path of every document from the project's folder. */
export const documentNames: readonly string[] = [
  'README.md',
  'CHANGELOG.md',
  'SECURITY.md',
  ...readdirSync(join(projectFolder, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .sort()
    .map((name) => `docs/${name}`),
];

/** The text of a file of the project. */
export function textOf(path: string): string {
  return readFileSync(join(projectFolder, path), 'utf8');
}

interface Block {
  /** The word after the opening fence; empty if there is none. */
  readonly language: string;
  /** The line number of the first line of the text, counted from 1. */
  readonly line: number;
  readonly lines: readonly string[];
}

/** The fenced blocks of a document. */
export function blocksOf(path: string): Block[] {
  const blocks: Block[] = [];
  let open: { language: string; line: number; lines: string[] } | undefined;
  for (const [index, text] of textOf(path).split('\n').entries()) {
    const fence = /^\s*```(\w*)\s*$/.exec(text);
    if (fence === null) {
      open?.lines.push(text);
    } else if (open === undefined) {
      open = { language: fence[1] ?? '', line: index + 2, lines: [] };
    } else {
      blocks.push(open);
      open = undefined;
    }
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: a block is not closed`);
  return blocks;
}

/** The document without its fenced blocks. */
export function proseOf(path: string): string {
  return textOf(path).replaceAll(/^```[^]*?^```$/gm, '');
}

/** The headings of a document, without their marks. */
export function headingsOf(path: string): string[] {
  return [...proseOf(path).matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => heading.trim());
}

/** The text between the heading and the next of the same or a higher level. Throws if there is no such heading. */
export function sectionOf(path: string, heading: string): string {
  const lines = textOf(path).split('\n');
  const start = lines.findIndex((line) => /^#+ /.test(line) && line.replace(/^#+ /, '') === heading);
  if (start === -1) throw new Error(`${path} has no section "${heading}"`);
  const level = lines[start]?.indexOf(' ') ?? 1;
  const length = lines.slice(start + 1).findIndex((line) => /^#+ /.test(line) && line.indexOf(' ') <= level);
  return lines.slice(start + 1, length === -1 ? undefined : start + 1 + length).join('\n');
}

/** The rows of the first table in the text, without its head. */
export function tableRows(text: string): string[][] {
  const lines = text.split('\n');
  const start = lines.findIndex((line) => line.startsWith('|'));
  if (start === -1) return [];
  const end = lines.findIndex((line, index) => index > start && !line.startsWith('|'));
  return lines.slice(start + 2, end === -1 ? undefined : end).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The texts between single backticks in the prose. */
export function codeSpansOf(path: string): string[] {
  return [...proseOf(path).matchAll(/`([^`]+)`/g)].map(([, text = '']) => text.replaceAll('\n', ' '));
}

/** The paths of all files under a folder, from the project's folder. */
export function filesUnder(folder: string): string[] {
  return readdirSync(join(projectFolder, folder), { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && !each.parentPath.includes('node_modules'))
    .map((each) => join(each.parentPath, each.name).slice(projectFolder.length).replace(/^\//, ''));
}

/** The files in the first column of the table in that section of docs/architecture.md, in order. */
export function filesOfWay(heading: string): string[] {
  const rows = sectionOf('docs/architecture.md', heading).matchAll(/^\| (`src\/[^|]*) \|/gm);
  return Array.from(rows, ([, cell = '']) => cell).flatMap((cell) => {
    const [first = '', ...others] = Array.from(cell.matchAll(/`([\w/.-]+\.ts)`/g), ([, file]) => String(file));
    return [first, ...others.map((name) => first.replace(/[^/]+$/, name))];
  });
}
