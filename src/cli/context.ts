/** What the frame gives to every command: settings, streams, the signal to stop on, and the global flags. */
import type { ExitCode } from '../model/errors.ts';
import {
  type FlagValue,
  readSettings,
  type Settings,
  settingsFrom,
  type SettingsReading,
} from '../settings/settings.ts';
import { flagName, settingTable } from '../settings/table.ts';

export interface CliContext {
  /** Read and checked at the first call; throws a UsageError. */
  readonly settings: () => Settings;
  /** The same with origins and every problem, for the commands that report on the settings themselves. */
  readonly reading: () => SettingsReading;
  /** The settings read anew, for a command that goes on for days; what it has read before stays in force. */
  readonly readAgain: () => SettingsReading;
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly stdin: NodeJS.ReadStream;
  /** Aborted by SIGINT and SIGTERM; its reason is an InterruptedError. */
  readonly signal: AbortSignal;
  /** Calls the listener at each SIGHUP, until what it gives is called. */
  readonly onHangUp: (listener: () => void) => () => void;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The working folder. */
  readonly folder: string;
  readonly json: () => boolean;
  readonly quiet: () => boolean;
  readonly verbose: () => boolean;
  /** Whether to colour what goes to the stream (standard output unless told). */
  readonly color: (stream?: NodeJS.WriteStream) => boolean;
  /** Records the exit code of a command whose answer is already printed; the command goes on. */
  readonly exit: (code: ExitCode) => void;
}

/** What the process, or a test, brings. */
export interface CliWorld {
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  readonly stdin: NodeJS.ReadStream;
  readonly signal: AbortSignal;
  /** Where it is left out, nothing hangs up. */
  readonly onHangUp?: CliContext['onHangUp'];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

/** The global flags as commander has read them. */
export type GlobalFlags = Readonly<Record<string, string | boolean | undefined>>;

/** `--base-url` → `baseUrl`, as commander names it. */
function attributeOf(flag: string): string {
  return flag.slice(2).replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

function flagValues(flags: GlobalFlags): FlagValue[] {
  const values: FlagValue[] = [];
  for (const setting of settingTable) {
    const flag = flagName(setting);
    const value = flag === undefined ? undefined : flags[attributeOf(flag)];
    if (flag !== undefined && value !== undefined) values.push({ key: setting.key, flag, value });
  }
  if (flags['quiet'] === true) values.push({ key: 'log.level', flag: '--quiet', value: 'warn' });
  if (flags['verbose'] === true) values.push({ key: 'log.level', flag: '--verbose', value: 'debug' });
  return values;
}

/** The context of one invocation; `exitCode` tells what a command recorded. */
export function createContext(
  world: CliWorld,
  flags: () => GlobalFlags,
): CliContext & { readonly exitCode: () => ExitCode } {
  let read: SettingsReading | undefined;
  let code: ExitCode = 0;
  const readAgain = () =>
    readSettings({ flags: flagValues(flags()), environment: world.environment, folder: world.folder });
  const reading = () => (read ??= readAgain());
  return {
    onHangUp: () => () => {},
    ...world,
    settings: () => settingsFrom(reading()),
    reading,
    readAgain,
    json: () => flags()['json'] === true,
    quiet: () => flags()['quiet'] === true,
    verbose: () => flags()['verbose'] === true,
    color: (stream = world.stdout) =>
      flags()['color'] !== false && (world.environment['NO_COLOR'] ?? '') === '' && stream.isTTY,
    exit: (next) => {
      code = next;
    },
    exitCode: () => code,
  };
}
