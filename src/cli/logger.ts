/** The log: JSON lines, or readable ones on a terminal; no line holds a secret that the process knows. */
import { Buffer } from 'node:buffer';
import { closeSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { type DestinationStream, pino } from 'pino';
import type { CliContext } from './context.ts';
import { pasteable, printWarning, screenOf } from './output.ts';
import { FileError, OperatorError } from '../model/errors.ts';
import { explainFileError, isCutOff, makeFolder, refusePlanted } from '../model/files.ts';
import { type Log, logWith } from '../model/log.ts';
import { isRecord } from '../model/records.ts';
import { harmless } from '../model/text.ts';
import type { LogLevel } from '../settings/kinds.ts';

/**
 * Opens the file to write at its end. Throws a FileError; what fails later is said once until it works again, since a full disk must
 * not end a run.
 */
function openLogFile(path: string, emit: (problem: string) => void) {
  let reported = false;
  /** A line was cut off where the disk became full: the next must not become a part of it. */
  let isCut = false;
  const complain = (what: string, error: unknown): void => {
    if (!reported) emit(explained(error, what, path).message);
    reported = true;
  };
  let handle: number | undefined;
  try {
    makeFolder(dirname(path));
    handle = open(path);
    isCut = isCutOff(path);
  } catch (error) {
    throw explained(error, 'write the log', path);
  }
  return {
    /** The line is in the file when this returns. */
    write: (line: string): void => {
      if (handle === undefined) return;
      const whole = Buffer.from(isCut ? `\n${line}` : line);
      let written = 0;
      try {
        // The system takes what has room, and says so at the next call.
        while (written < whole.length) written += writeSync(handle, whole, written);
        isCut = false;
        reported = false;
      } catch (error) {
        isCut ||= written > 0;
        complain('write the log', error);
      }
    },
    /** Goes on in a file of the same name, made where it is gone. */
    reopen: (): void => {
      try {
        const next = open(path);
        if (handle !== undefined) closeSync(handle);
        handle = next;
        isCut = isCutOff(path);
        reported = false;
      } catch (error) {
        complain('open the log again', error);
      }
    },
    close: (): void => {
      if (handle !== undefined) closeSync(handle);
      handle = undefined;
    },
  };
}

function explained(error: unknown, what: string, path: string): OperatorError {
  const advice = 'Name another file: --log-file, ADMIN_MIRROR_LOG_FILE or log.file.';
  return (
    explainFileError(error, what, path) ??
    new FileError(`could not ${what} ${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`, { advice })
  );
}

function open(path: string): number {
  refusePlanted(path);
  return openSync(path, 'a', 0o600);
}

/** Fields that never reach a log, wherever they stand in what is logged. */
const secretNames = ['authorization', 'Authorization', 'key', 'apiKey', 'api_key', 'password'];
const redactedPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

type Fields = Readonly<Record<string, unknown>>;

/** The log of a command, at the level of the settings, with those fields in each line. Throws a FileError. */
export async function openLog(context: CliContext, fields: () => Fields = () => ({})): Promise<Log> {
  const { profile, log } = context.settings();
  const target = log.file === undefined ? await standardError(context) : fileTarget(context, log.file);
  const own = logTo({ write: (line) => target.write(harmless(context.redact(line))) }, log.level);
  const whole = logWith(own, () => ({ ...(profile !== undefined && { profile }), ...fields() }));
  if (log.file !== undefined) context.atEnd((error) => logEnd(context, whole, error));
  return whole;
}

/** A pino logger without host name and process id: one process, one machine, and its lines are read by people. */
function logTo(destination: DestinationStream, level: LogLevel): Log {
  return pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redactedPaths, censor: '****' },
    },
    destination,
  );
}

function fileTarget(context: CliContext, path: string): DestinationStream {
  const file = openLogFile(path, (problem) => printWarning(context, problem));
  const forget = context.onReopen(() => file.reopen());
  context.atEnd(() => {
    forget();
    file.close();
  });
  return file;
}

/** Standard error says why the command failed; a log apart from it must say so, too. */
function logEnd(context: CliContext, log: Log, error: unknown): void {
  if (!(error instanceof Error)) return;
  if (error instanceof OperatorError) {
    const advice = error.advice === undefined ? undefined : pasteable(context, error.advice);
    log.error({ exit_code: error.exitCode, advice }, error.message);
  } else log.error({ exit_code: 1, stack: error.stack }, error.message);
}

async function standardError(context: CliContext): Promise<DestinationStream> {
  if (!context.stderr.isTTY) return context.stderr;
  const { default: pretty } = await import('pino-pretty');
  const shown = pretty({
    destination: screenOf(context.stderr),
    colorize: context.color(context.stderr),
    translateTime: 'SYS:HH:MM:ss',
    sync: true,
  });
  return { write: (line) => shown.write(harmlessLine(line)) };
}

/** The line with every text in it harmless, since what stands in JSON as an escape is shown as what it means. */
function harmlessLine(line: string): string {
  const clean = (value: unknown): unknown => (typeof value === 'string' ? harmless(value) : value);
  const named = (value: unknown): unknown =>
    isRecord(value)
      ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [harmless(name), inner]))
      : clean(value);
  return `${JSON.stringify(JSON.parse(line, (_, value: unknown) => named(value)))}\n`;
}
