/** What the frame gives to every command: settings, streams, the signal to stop on, and the global flags. */
import { Option } from 'commander';
import type { Sleep } from '../api/rate.ts';
import { type Actor, actorOf } from '../model/actor.ts';
import { type ExitCode, UsageError } from '../model/errors.ts';
import {
  type FlagValue,
  readAllSettings,
  readSettings,
  type ServerReading,
  type Settings,
  settingsFrom,
  type SettingsReading,
} from '../settings/settings.ts';
import { Releases } from '../model/releases.ts';
import { Secret, SecretWords } from '../model/secret.ts';
import { keyOf, sharedStoreOf } from '../settings/server.ts';
import { flagName, type SettingKey, settingTable } from '../settings/table.ts';
import { sieved } from './output.ts';

/** What the process, or a test, brings. */
export interface CliWorld {
  /** In a context behind a sieve where it is a terminal, as is the next. */
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** A function, since Node loads streams of files for what it gives, and few commands read. */
  readonly stdin: () => NodeJS.ReadStream;
  /** Aborted by SIGINT and SIGTERM; its reason is an InterruptedError. */
  readonly signal: AbortSignal;
  /** Waits before a row is looked at, or sent, again; real time where it is left out. */
  readonly sleep?: Sleep;
  /** Where it is left out, nothing hangs up. */
  readonly onHangUp?: CliContext['onHangUp'];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  /** What the process knows and must not show; where it is not given, the command's own. */
  readonly secrets?: SecretWords;
  /** Called before the first write goes to a server. */
  readonly onSend?: () => void;
  /** Dispatches `reopen` when log files are to be opened again. */
  readonly events?: EventTarget;
}

export interface CliContext extends Omit<CliWorld, 'onHangUp' | 'secrets' | 'onSend' | 'events'> {
  /** Read and checked at the first call; throws a UsageError. */
  readonly settings: () => Settings;
  /** Of every server of the config file, for a command that works for all. Throws a UsageError where a flag is of one of them. */
  readonly allSettings: () => readonly ServerReading[];
  /** The same for one that only shows them beside its own: flags of one server say nothing of the others. */
  readonly serversOfConfig: () => readonly ServerReading[];
  /** The same with origins and every problem, for the commands that report on the settings themselves. */
  readonly reading: () => SettingsReading;
  /** The settings read anew, for a command that goes on for days; what it has read before stays in force. */
  readonly readAgain: () => SettingsReading;
  /** Calls the listener at each SIGHUP, until what it gives is called. */
  readonly onHangUp: (listener: () => void) => () => void;
  /** What the command opens, closed when it has ended, however it did. */
  readonly releases: Releases;
  /** Who runs the command. */
  readonly actor: () => Actor;
  /** What the command was given, its own name first or after global flags. */
  readonly argv: readonly string[];
  readonly flags: () => GlobalFlags;
  readonly json: () => boolean;
  readonly quiet: () => boolean;
  readonly verbose: () => boolean;
  /** Whether to colour what goes to the stream (standard output by default). */
  readonly color: (stream?: NodeJS.WriteStream) => boolean;
  /** Records the exit code of a command whose output is already printed; the command goes on. */
  readonly exit: (code: ExitCode) => void;
  /** To be called before the first write goes to a server: from then on the command ends as that did, whatever its output meets. */
  readonly sends: () => void;
  /** Something that must stand in nothing that is printed or logged: a password that was given. */
  readonly keepSecret: (word: string) => void;
  /** The text without the key and what else is to be kept secret. */
  readonly redact: (text: string) => string;
  /** Calls it whenever log files are to be opened again; gives what ends that. */
  readonly onReopen: (open: () => void) => () => void;
  /** Calls it when the command has ended, with what it failed with; what was added last is called first. */
  readonly atEnd: (act: (error: unknown) => void) => void;
}

type GlobalFlags = Readonly<Record<string, string | boolean | undefined>>;

export function flagValues(flags: GlobalFlags): FlagValue[] {
  const values: FlagValue[] = [];
  for (const setting of settingTable) {
    const flag = flagName(setting);
    const value = flag === undefined ? undefined : flags[new Option(flag).attributeName()];
    if (flag !== undefined && value !== undefined) values.push({ key: setting.key, flag, value });
  }
  if (flags['quiet'] === true) values.push({ key: 'log.level', flag: '--quiet', value: 'warn' });
  if (flags['verbose'] === true) values.push({ key: 'log.level', flag: '--verbose', value: 'debug' });
  return values;
}

const ofOneServer: readonly SettingKey[] = ['profile', 'api.base_url', 'store.mirror', 'store.journal', 'log.file'];

/** The context of one invocation: what a command recorded, and how to end it. */
export function createContext(
  world: CliWorld,
  flags: () => GlobalFlags,
  argv: readonly string[] = [],
): CliContext & { readonly exitCode: () => ExitCode; readonly end: (error?: unknown) => void } {
  let read: SettingsReading | undefined;
  let code: ExitCode = 0;
  let keyKnown = false;
  const { secrets = new SecretWords(), events = new EventTarget() } = world;
  const ends: ((error: unknown) => void)[] = [];
  const sources = () => ({ flags: flagValues(flags()), environment: world.environment, folder: world.folder });
  const readAgain = () => readSettings(sources());
  const serversOfConfig = () => {
    const ofAll = sources().flags.filter(({ key }) => !ofOneServer.includes(key));
    const all = readAllSettings({ ...sources(), flags: ofAll });
    for (const { reading } of all) keepSecrets(secrets, reading.rest);
    return all;
  };
  const reading = () => (read ??= readAgain());
  const [stdout, stderr] = [sieved(world.stdout), sieved(world.stderr)];
  return {
    onHangUp: () => () => {},
    ...world,
    releases: new Releases(),
    stdout,
    stderr,
    settings: () => {
      const settings = settingsFrom(reading());
      if (!keyKnown) keepSecrets(secrets, settings);
      keyKnown = true;
      return settings;
    },
    allSettings: () => {
      const own = sources().flags.find(({ key }) => ofOneServer.includes(key));
      if (own !== undefined) {
        throw new UsageError(`${own.flag} is of one server, and this is for all servers of the config file`, {
          advice: `Leave ${own.flag} out, or name one profile.`,
        });
      }
      const all = serversOfConfig();
      if (all.some(({ profile }) => profile !== null)) return all;
      throw new UsageError('the config file has no profiles', {
        advice: 'Write them under "profiles:", or leave out --all.',
      });
    },
    serversOfConfig,
    reading,
    argv,
    flags,
    readAgain,
    actor: () => actorOf(world.environment),
    json: () => flags()['json'] === true,
    quiet: () => flags()['quiet'] === true,
    verbose: () => flags()['verbose'] === true,
    color: (stream = stdout) =>
      flags()['color'] !== false && (world.environment['NO_COLOR'] ?? '') === '' && stream.isTTY,
    exit: (next) => {
      code = next;
    },
    sends: () => world.onSend?.(),
    keepSecret: (word) => secrets.add(word),
    redact: (text) => secrets.redact(text),
    onReopen: (open) => {
      events.addEventListener('reopen', open);
      return () => events.removeEventListener('reopen', open);
    },
    atEnd: (act) => void ends.push(act),
    exitCode: () => code,
    end: (error) => {
      for (let act = ends.pop(); act !== undefined; act = ends.pop()) act(error);
    },
  };
}

/** Whatever the command goes on to print, or to crash with, no secret of the settings is in it. */
function keepSecrets(secrets: SecretWords, settings: Settings): void {
  for (const secret of secretsIn(settings)) secrets.add(secret.reveal());
  for (const read of [() => keyOf(settings).key, () => sharedStoreOf(settings)?.password]) {
    try {
      const secret = read();
      if (secret !== undefined) secrets.add(secret.reveal());
    } catch {
      // None that could be shown; whoever needs it reports what is wrong with it.
    }
  }
}

/** Every value of the settings that is a secret, whichever they are. */
function* secretsIn(value: unknown): Generator<Secret> {
  if (value instanceof Secret) yield value;
  else if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) yield* secretsIn(each);
}
