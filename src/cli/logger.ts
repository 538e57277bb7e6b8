/** The log: JSON lines, or readable lines on a terminal. No line contains a secret that the process knows. */
import { pino } from 'pino';
import type { CliContext } from './context.ts';
import { paint } from './output.ts';
import { type Log, logWith, silentLog } from '../model/log.ts';
import { isRecord } from '../model/records.ts';
import { harmless } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import type { Surroundings } from '../settings/settings.ts';
import type { ChildNews } from '../worker/run-job.ts';

/** Fields that are never logged, at any of the depths below. */
const secretNames = ['authorization', 'Authorization', 'key', 'apiKey', 'api_key', 'password'];
const redactedPaths = secretNames.flatMap((name) => [name, `*.${name}`, `*.*.${name}`]);

type Fields = Readonly<Record<string, unknown>>;
type Write = (line: string) => void;

/** Opens the log of a command, at the level of the settings, with `fields` in each line. */
export function openLog(context: CliContext, fields: () => Fields = () => ({})): Log {
  const { profile, log } = context.settings();
  const { send, stderr } = context;
  const write: Write =
    send !== undefined ? toParent(send) : stderr.isTTY ? readable(context) : (line) => void stderr.write(line);
  const own = pino(
    {
      level: log.level,
      // There is one process on one machine, and people read the lines: neither host name nor process id.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: redactedPaths, censor: '****' },
    },
    { write: (line) => write(harmless(context.redact(line))) },
  );
  return logWith(own, () => ({ ...(profile !== undefined && { profile }), ...fields() }));
}

/** Opens the log, and returns what the other rooms need besides. */
export function openSurroundings(context: CliContext, fields?: () => Fields): Surroundings {
  const { signal } = context;
  return { settings: context.settings(), log: openLog(context, fields), clock: systemClock, signal };
}

const styles = { debug: 'dim', info: 'green', warn: 'yellow', error: 'red' } as const;

/** `10:20:30 warn  slow  page=3`. What is only worth knowing has neither level nor fields, unless --verbose is given. */
function readable(context: CliContext): Write {
  return (line) => {
    const { level, time, msg, ...fields } = JSON.parse(line) as Fields;
    const name = levelOf(level);
    const clock = new Date(String(time)).toTimeString().slice(0, 8);
    if (name === 'info' && !context.verbose()) {
      const { profile } = fields;
      context.stderr.write(`${clock} ${typeof profile === 'string' ? `${profile}: ` : ''}${String(msg)}\n`);
      return;
    }
    const values = Object.entries(fields).map(([name, value]) => `  ${name}=${JSON.stringify(value)}`);
    const label = paint(context, styles[name], name.padEnd(5), context.stderr);
    context.stderr.write(`${clock} ${label} ${String(msg)}${values.join('')}\n`);
  };
}

/** The log for what child processes say: on a terminal only warnings and errors, since a line of ours says how each one ended. */
export function logOfChildren(context: CliContext, log: Log): Log {
  if (!context.stderr.isTTY || context.verbose()) return log;
  return { ...silentLog, warn: log.warn, error: log.error };
}

/** For a log that the parent writes: pino makes the lines, and has removed secrets from them. */
function toParent(send: (news: ChildNews) => void): Write {
  return (line) => {
    const entry: unknown = JSON.parse(line);
    if (!isRecord(entry)) return;
    const { level, msg, time: _time, ...fields } = entry;
    send({ kind: 'log', level: levelOf(level), message: String(msg), fields });
  };
}

function levelOf(level: unknown): keyof Log {
  return level === 'debug' || level === 'info' || level === 'warn' ? level : 'error';
}
