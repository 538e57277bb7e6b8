/** The log: JSON lines, or readable lines on a terminal. No line contains a secret that the process knows. */
import { appendFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type DestinationStream, pino } from 'pino';
import type { CliContext } from './context.ts';
import { refuseOwnFileAsLog } from './files.ts';
import { pasteable, printWarning, screenOf } from './output.ts';
import { FileError, OperatorError } from '../model/errors.ts';
import { explainFileError, makeFolder } from '../model/files.ts';
import { type Log, logWith } from '../model/log.ts';
import { isRecord } from '../model/records.ts';
import { harmless } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import type { LogLevel } from '../settings/table.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { ChildNews } from '../worker/run-job.ts';

/**
 * Returns the function that appends a line to the file. Each line opens it, so a file that was moved away to rotate it is simply begun
 * anew. Throws a FileError. Later failures do not end the run, since a disk may be full for a while: each is reported once, until
 * writing works again.
 */
function openLogFile(path: string, emit: (problem: string) => void): DestinationStream {
  const append = (line: string) => appendFileSync(path, line, { mode: 0o600 });
  let isReported = false;
  try {
    makeFolder(dirname(path));
    append('');
  } catch (error) {
    throw explained(error, path);
  }
  return {
    write: (line) => {
      try {
        append(line);
        isReported = false;
      } catch (error) {
        if (!isReported) emit(explained(error, path).message);
        isReported = true;
      }
    },
  };
}

function explained(error: unknown, path: string): OperatorError {
  const what = 'write the log';
  const advice = 'Name another file: --log-file, ADMIN_MIRROR_LOG_FILE or log.file.';
  return (
    explainFileError(error, what, path) ??
    new FileError(`could not ${what} ${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`, { advice })
  );
}

/** Fields that are never logged, at any of the depths below. */
const secretNames = ['authorization', 'Authorization', 'key', 'apiKey', 'api_key', 'password'];
const redactedPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

type Fields = Readonly<Record<string, unknown>>;

/** Opens the log of a command, at the level of the settings, with `fields` in each line. Throws a FileError. */
export async function openLog(context: CliContext, fields: () => Fields = () => ({})): Promise<Log> {
  const { profile, log } = context.settings();
  const { send } = context;
  const target =
    log.file !== undefined
      ? fileTarget(context, log.file)
      : send === undefined
        ? await standardError(context)
        : logToParent(send);
  const own = logTo({ write: (line) => target.write(harmless(context.redact(line))) }, log.level);
  const whole = logWith(own, () => ({ ...(profile !== undefined && { profile }), ...fields() }));
  if (log.file !== undefined) context.atEnd((error) => logEnd(context, whole, error));
  return whole;
}

/** Opens the log, and returns what the other rooms need besides. Throws a FileError. */
export async function openSurroundings(context: CliContext, fields?: () => Fields): Promise<Surroundings> {
  const { signal } = context;
  return { settings: context.settings(), log: await openLog(context, fields), clock: systemClock, signal };
}

/** Creates a pino logger without host name and process id: there is one process on one machine, and people read the lines. */
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
  refuseOwnFileAsLog(context, path);
  return openLogFile(path, (problem) => printWarning(context, problem));
}

/** Standard error says why the command failed. A separate log file must say it, too. */
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

/** Makes every text in the line harmless: pino-pretty shows what is an escape in JSON as the character itself. */
function harmlessLine(line: string): string {
  const clean = (value: unknown): unknown => (typeof value === 'string' ? harmless(value) : value);
  const named = (value: unknown): unknown =>
    isRecord(value)
      ? Object.fromEntries(Object.entries(value).map(([name, inner]) => [harmless(name), inner]))
      : clean(value);
  return `${JSON.stringify(JSON.parse(line, (_, value: unknown) => named(value)))}\n`;
}

/** Returns the destination of a log that the parent writes: pino makes the lines, and has removed secrets from them. */
function logToParent(send: (news: ChildNews) => void): { write: (line: string) => void } {
  return {
    write: (line) => {
      const entry: unknown = JSON.parse(line);
      if (!isRecord(entry)) return;
      const { level, msg, time: _time, ...fields } = entry;
      send({ kind: 'log', level: levelOf(level), message: String(msg), fields });
    },
  };
}

function levelOf(level: unknown): Extract<ChildNews, { kind: 'log' }>['level'] {
  return level === 'debug' || level === 'info' || level === 'warn' ? level : 'error';
}
