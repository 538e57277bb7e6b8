/** How all commands print: JSON, lines, errors, colours, and commands that can be pasted. Also the only way to a terminal. */
import { StringDecoder } from 'node:string_decoder';
import { inspect } from 'node:util';
import { stringifyExactly } from '../api/exact.ts';
import { failureOf, InterruptedError, messageOf, OperatorError, stackOf } from '../model/errors.ts';
import { quoted } from '../model/job.ts';
import { forTerminal, harmless, styleMark } from '../model/text.ts';
import { commandName } from '../model/program.ts';
import { valueOf } from '../settings/settings.ts';
import { settingOf } from '../settings/table.ts';
import { commands } from './commands.ts';
import type { CliContext } from './context.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** Prints one JSON document, which is the whole standard output under `--json`. */
export function printJson(context: CliContext, output: unknown): void {
  const json = stringifyExactly(output, 2);
  if (context.send !== undefined) return context.send({ kind: 'report', report: JSON.parse(json) });
  // JSON does not escape all characters that control terminals, and whoever reads it next may show them.
  context.stdout.write(`${harmless(json)}\n`);
}

export function printLine(context: CliContext, line: string): void {
  context.stdout.write(`${line}\n`);
}

export function printLines(context: CliContext, lines: Iterable<string>): void {
  for (const line of lines) printLine(context, line);
}

/**
 * Prints lines with `pasteable` commands in them. Pasted without its flags, a command that changes a balance might change it on
 * another server.
 */
export function printWords(context: CliContext, lines: Iterable<string>): void {
  for (const line of lines) printLine(context, pasteable(context, line));
}

/** Prints the result of a command: the document under `--json`, else the lines, with `pasteable` commands in them. */
export function printResult(context: CliContext, document: unknown, lines: Iterable<string>): void {
  if (context.json()) printJson(context, document);
  else printWords(context, lines);
}

/** Returns the lines of a table with aligned columns. @param isRight whether a column is right-aligned */
export function alignedLines(
  rows: readonly (readonly string[])[],
  isRight: (column: number) => boolean = () => false,
): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const aligned = (cell: string, column: number) =>
    isRight(column) ? cell.padStart(widths[column] ?? 0) : cell.padEnd(widths[column] ?? 0);
  return rows.map((row) => row.map(aligned).join('  ').trimEnd());
}

/** Returns the width that a table must fit in; undefined outside a terminal, where nothing is cut. */
export function tableRoom({ stdout }: CliContext): number | undefined {
  return stdout.isTTY ? stdout.columns : undefined;
}

/** Prints a line for the person at the terminal, on standard error; not under `--quiet`. */
export function printNote(context: CliContext, line: string): void {
  if (!context.quiet()) context.stderr.write(`${pasteable(context, line)}\n`);
}

/** Prints a note that the `--json` document contains, too. Not under `--json`: the worker would log standard error as a warning. */
export function printOutcome(context: CliContext, line: string): void {
  if (!context.json()) printNote(context, line);
}

/** Prints what the operator should know although the command continues, on standard error; also under `--quiet`. */
export function printWarning(context: CliContext, line: string): void {
  context.stderr.write(`${paint(context, 'yellow', 'warning:', context.stderr)} ${pasteable(context, line)}\n`);
}

/** Styles the text if the stream (by default standard output) shows colours. */
export function paint(context: CliContext, style: Style, text: string, stream = context.stdout): string {
  if (!context.color(stream)) return text;
  const [on, off] = inspect.colors[style] ?? [0, 0];
  return `${styleMark(on)}${text}${styleMark(off)}`;
}

/** Prints what failed and what to do next; for a bug, everything that helps to find it. */
export function printError(context: CliContext, error: unknown): void {
  const label = paint(context, 'red', 'error:', context.stderr);
  const print = (text: string) => context.stderr.write(context.redact(text));
  const problem = context.redact(pasteable(context, messageOf(error)));
  context.send?.({ kind: 'problem', problem, failure: failureOf(error) });
  if (error instanceof OperatorError) {
    // Who stops a command has made no error.
    const before = error instanceof InterruptedError ? '' : `${label} `;
    print(`${before}${pasteable(context, error.message)}\n`);
    if (error.advice !== undefined) print(`${pasteable(context, error.advice)}\n`);
    if (context.verbose() && error.cause instanceof Error) print(`cause: ${error.cause.stack}\n`);
    return;
  }
  print(`${label} ${bugText(error)}`);
}

/** Returns the message and the advice of an error as one text. */
export function errorText({ message, advice }: Pick<OperatorError, 'message' | 'advice'>): string {
  return `${message}. ${advice ?? ''}`.trim();
}

/** Returns the message for an error that is a bug. */
export function bugText(error: unknown): string {
  return `this is a bug in admin-mirror; please report it with the lines below.\n${stackOf(error)}\n`;
}

/** What stands for a time of freshness if there is none: a list was never read whole. */
export const notCompleteYet = 'not complete yet';

/** Returns how fresh something is, in the summary of a run. */
export function freshWords(freshAsOf: string | null): string {
  return freshAsOf === null ? notCompleteYet : `fresh as of ${freshAsOf}`;
}

/** Returns the name of a server in lists. */
export function serverLabel(profile: string | null): string {
  return profile ?? '(no profile)';
}

/** The settings that decide which server and files a command works on. A pasted command needs their flags. */
const scopeKeys = ['config', 'profile', 'api.base_url', 'api.insecure_http', 'store.mirror', 'store.journal'] as const;

const names = [...commands.map(({ name }) => name), 'help'].join('|');
const mention = new RegExp(String.raw`(?:npx )?\badmin-mirror (?=(?:${names})\b)`, 'g');

/** Returns the beginning of a command that works on the same server and files as this one: `npx admin-mirror --profile staging`. */
function commandStart(context: Pick<CliContext, 'reading'>): string {
  const reading = context.reading();
  const flags = scopeKeys.flatMap((key) => {
    const { value, origin } = valueOf(reading, key);
    const [flag, argument] = settingOf(key).flag?.split(' ') ?? [];
    // A profile that comes from a variable may not be set where the command is pasted.
    const isNeeded = origin.startsWith('flag ') || (key === 'profile' && reading.rest.profile !== undefined);
    if (flag === undefined || !isNeeded) return [];
    return argument === undefined ? [flag] : [flag, quoted(String(value))];
  });
  return [commandName, ...flags].join(' ');
}

/** Makes each command in the text, such as `admin-mirror sync`, ready to paste: with `npx` in a clone, and for the same files. */
export function pasteable(context: Pick<CliContext, 'reading'>, text: string): string {
  // Reading the settings takes time, and most lines contain no command.
  return text.search(mention) === -1 ? text : text.replaceAll(mention, () => `${commandStart(context)} `);
}

const originals = new WeakMap<NodeJS.WriteStream, NodeJS.WriteStream>();

/** Wraps a terminal so that no control sequence but our own styles reaches it. Files and pipes get everything unchanged. */
export function sieved(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  if (!stream.isTTY || originals.has(stream)) return stream;
  // A chunk may end within a character.
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
  originals.set(sieve, stream);
  return sieve;
}

/** Returns the terminal itself, for output that moves the cursor. The caller must make foreign text `harmless`. */
export function screenOf(stream: NodeJS.WriteStream): NodeJS.WriteStream {
  return originals.get(stream) ?? stream;
}
