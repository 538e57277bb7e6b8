/** What all commands print alike: JSON, lines, errors, colours. */
import { stringifyExactly } from '../api/exact-json.ts';
import { inspect } from 'node:util';
import { OperatorError } from '../model/errors.ts';
import { harmless, styleMark } from '../model/terminal-text.ts';
import type { CliContext } from './context.ts';
import { pasteable } from './pasteable.ts';

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

/** One JSON document and a line break on standard output: the whole output under `--json`. */
export function printJson(context: CliContext, output: unknown): void {
  // JSON itself leaves characters plain that command terminals; whoever reads it next may show them.
  context.stdout.write(`${harmless(stringifyExactly(output, 2))}\n`);
}

/** A line of the output, on standard output. */
export function printLine(context: CliContext, line: string): void {
  context.stdout.write(`${line}\n`);
}

/** A line for the person who watches, on standard error; not under `--quiet`. */
export function printNote(context: CliContext, line: string): void {
  if (!context.quiet()) context.stderr.write(`${pasteable(context, line)}\n`);
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
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `this is a bug in admin-mirror; please report it with the lines below.\n${detail}\n`;
}

/** A server as it is called in lists. */
export function serverLabel(profile: string | null): string {
  return profile ?? '(no profile)';
}
