/** What all commands print alike: JSON, lines, errors, colours, and commands that can be pasted; and the one way to a terminal. */
import { StringDecoder } from 'node:string_decoder';
import { inspect } from 'node:util';
import { stringifyExactly } from '../api/exact-json.ts';
import { OperatorError, stackOf } from '../model/errors.ts';
import { quoted } from '../model/job.ts';
import { forTerminal, harmless, styleMark } from '../model/text.ts';
import { commandName } from '../model/program.ts';
import { valueOf } from '../settings/settings.ts';
import { commands } from './commands.ts';
import type { CliContext } from './context.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** One JSON document and a line break on standard output: the whole output under `--json`. */
export function printJson(context: CliContext, output: unknown): void {
  // JSON itself leaves characters plain that command terminals; whoever reads it next may show them.
  context.stdout.write(`${harmless(stringifyExactly(output, 2))}\n`);
}

export function printLine(context: CliContext, line: string): void {
  context.stdout.write(`${line}\n`);
}

export function printLines(context: CliContext, lines: Iterable<string>): void {
  for (const line of lines) printLine(context, line);
}

/** Lines that name commands, each as it can be pasted: without its flags, one that changes a balance would change it on another server. */
export function printWords(context: CliContext, lines: Iterable<string>): void {
  for (const line of lines) printLine(context, pasteable(context, line));
}

/** What a command has to say: the document under `--json`, else the lines. */
export function printResult(context: CliContext, document: unknown, lines: Iterable<string>): void {
  if (context.json()) printJson(context, document);
  else printLines(context, lines);
}

/** The lines of a table without a heading, their cells one below the other. @param isRight whether the cells of a column stand to the right */
export function alignedLines(
  rows: readonly (readonly string[])[],
  isRight: (column: number) => boolean = () => false,
): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const aligned = (cell: string, column: number) =>
    isRight(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0);
  return rows.map((row) => row.map(aligned).join('  ').trimEnd());
}

/** Columns that a table is to fit in; undefined where nothing is to be cut: outside of a terminal. */
export function tableRoom({ stdout }: CliContext): number | undefined {
  return stdout.isTTY ? stdout.columns : undefined;
}

/** A line for the person who watches, on standard error; not under `--quiet`. */
export function printNote(context: CliContext, line: string): void {
  if (!context.quiet()) context.stderr.write(`${pasteable(context, line)}\n`);
}

/** A note that the document of `--json` says as well: beside it, the log of the worker would have it as a warning. */
export function printOutcome(context: CliContext, line: string): void {
  if (!context.json()) printNote(context, line);
}

/** Something the operator should know although the command goes on: standard error, under `--quiet` too. */
export function printWarning(context: CliContext, line: string): void {
  context.stderr.write(`${paint(context, 'yellow', 'warning:', context.stderr)} ${pasteable(context, line)}\n`);
}

/** The text in a style where the stream shows colours (standard output by default), else as it is. */
export function paint(context: CliContext, style: Style, text: string, stream = context.stdout): string {
  if (!context.color(stream)) return text;
  const [on, off] = inspect.colors[style] ?? [0, 0];
  return `${styleMark(on)}${text}${styleMark(off)}`;
}

/** The error for a person: what failed and what to do next; for a bug, all that helps to find it. */
export function printError(context: CliContext, error: unknown): void {
  const label = paint(context, 'red', 'error:', context.stderr);
  const print = (text: string) => context.stderr.write(context.redact(text));
  if (error instanceof OperatorError) {
    print(`${label} ${pasteable(context, error.message)}\n`);
    if (error.advice !== undefined) print(`${pasteable(context, error.advice)}\n`);
    if (context.verbose() && error.cause instanceof Error) print(`cause: ${error.cause.stack}\n`);
    return;
  }
  print(`${label} ${bugText(error)}`);
}

/** What is printed of an error that is nobody's mistake but ours. */
export function bugText(error: unknown): string {
  return `this is a bug in admin-mirror; please report it with the lines below.\n${stackOf(error)}\n`;
}

/** A server as it is called in lists. */
export function serverLabel(profile: string | null): string {
  return profile ?? '(no profile)';
}

/** The flags that say which settings, server and files a command is about. */
const kept = ['config', 'profile', 'api.base_url', 'api.insecure_http', 'store.mirror', 'store.journal'] as const;

const names = [...commands.map(({ name }) => name), 'help'].join('|');
const mention = new RegExp(String.raw`(?:npx )?\badmin-mirror (?=(?:${names})\b)`, 'g');

/** How a command begins that is to do as this one does. */
function commandStart(context: Pick<CliContext, 'reading'>): string {
  const reading = context.reading();
  const flags = kept.flatMap((key) => {
    const { setting, value, origin } = valueOf(reading, key);
    const [flag, argument] = setting.flag?.split(' ') ?? [];
    // A profile of a variable may not be there where the command is pasted.
    const isNeeded = origin.startsWith('flag ') || (key === 'profile' && reading.rest.profile !== undefined);
    if (flag === undefined || !isNeeded) return [];
    return argument === undefined ? [flag] : [flag, quoted(String(value))];
  });
  return [commandName, ...flags].join(' ');
}

/** The text with each command in it, such as `admin-mirror sync`, as it can be pasted: with `npx` in a clone, and about the same files. */
export function pasteable(context: Pick<CliContext, 'reading'>, text: string): string {
  // Reading the settings takes a moment, and most lines name no command.
  return text.search(mention) === -1 ? text : text.replaceAll(mention, () => `${commandStart(context)} `);
}

const behind = new WeakMap<NodeJS.WriteStream, NodeJS.WriteStream>();

/** The same stream; where it is a terminal, nothing passes that could command it. Files and programs get all as it is. */
export function sieved(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  if (!stream.isTTY || behind.has(stream)) return stream;
  // A character may be cut in two by the end of a chunk.
  const decoder = new StringDecoder('utf8');
  const write = (chunk: Uint8Array | string, ...rest: unknown[]): boolean => {
    const text = typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk));
    const callback = rest.find((each) => typeof each === 'function') as (() => void) | undefined;
    return stream.write(forTerminal(text), callback);
  };
  const sieve = new Proxy(stream, {
    get: (target, name) => {
      if (name === 'write') return write;
      const value: unknown = Reflect.get(target, name);
      return typeof value === 'function' ? (value.bind(target) as unknown) : value;
    },
  });
  behind.set(sieve, stream);
  return sieve;
}

/** The terminal itself, for what moves its cursor. Text that is not ours must be made `harmless` before. */
export function screenOf(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  return behind.get(stream) ?? stream;
}
