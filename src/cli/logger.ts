/** The log: JSON lines on standard error, or readable ones where that is a terminal. */
import { pino, type DestinationStream } from 'pino';
import type { Log } from '../model/log.ts';
import type { LogLevel } from '../settings/kinds.ts';
import type { CliContext } from './context.ts';

/** Fields that never reach a log, wherever they stand in what is logged. */
const secretNames = ['authorization', 'Authorization', 'key', 'apiKey', 'api_key', 'password'];
const redactedPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

/** A log that writes to the context's standard error at the level of the settings. Loads pino-pretty on a terminal. */
export async function openLog(context: CliContext): Promise<Log> {
  return logTo(await destinationOf(context), context.settings().log.level);
}

/** A pino logger without host name and process id: one process, one machine, and its lines are read by people. */
export function logTo(destination: DestinationStream, level: LogLevel): Log {
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

async function destinationOf(context: CliContext): Promise<DestinationStream> {
  if (!context.stderr.isTTY) return context.stderr;
  const { default: pretty } = await import('pino-pretty');
  return pretty({
    destination: context.stderr,
    colorize: context.color(context.stderr),
    translateTime: 'SYS:HH:MM:ss',
    sync: true,
  });
}
