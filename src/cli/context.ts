/** What every command gets: settings, streams, the signal that stops it, and the global flags. */
import { once } from 'node:events';
import { Option } from 'commander';
import type { Sleep } from '../api/gate.ts';
import { type Actor, actorOf } from '../model/actor.ts';
import { type ExitCode, InterruptedError, UsageError } from '../model/errors.ts';
import {
  type FlagValue,
  readAllSettings,
  readSettings,
  type ServerReading,
  type Settings,
  settingsFrom,
  type SettingsReading,
  type SettingsSources,
} from '../settings/settings.ts';
import { Releases } from '../model/releases.ts';
import { Secret, SecretWords } from '../model/secret.ts';
import type { GivenSettings } from '../settings/passed.ts';
import type { ChildNews, ChildOutput } from '../worker/run-job.ts';
import { keyOf, sharedStoreOf } from '../settings/server.ts';
import { flagName, type OtherConstants, type SettingKey, settingTable } from '../settings/table.ts';
import { sieved } from './output.ts';

/** What the process, or a test, provides. */
export interface CliWorld {
  /** In a context, both streams are `sieved`. */
  readonly stdout: NodeJS.WriteStream;
  readonly stderr: NodeJS.WriteStream;
  /** A function, because Node loads its file streams on first access, and few commands read standard input. */
  readonly stdin: () => NodeJS.ReadStream;
  /** Aborted by SIGINT and SIGTERM; its reason is an InterruptedError. */
  readonly signal: AbortSignal;
  /** Waits before a row is looked at, or sent, again. Defaults to real time. */
  readonly sleep?: Sleep;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  /** In the place of constants of the settings: for the demo and for tests. */
  readonly constants?: OtherConstants;
  /** What the process knows and must not show. Defaults to a new list for this command. */
  readonly secrets?: SecretWords;
  /** Called before the first write is sent to a server. */
  readonly onSend?: () => void;
  /** Called with each exit code that the command sets. It may set another one later, or fail. */
  readonly onExit?: (code: ExitCode) => void;
  /** Takes the place of what a command would read itself: its settings, and who runs it. */
  readonly given?: GivenByParent;
}

/** What a command gets that this program runs for a person, a job or a server. */
export interface GivenByParent extends GivenSettings {
  readonly actor: Actor;
  /** The name of its run; null for one of its own. */
  readonly run: string | null;
  readonly output: ChildOutput;
  /** Sends the report and the log to the parent instead of printing them. */
  readonly send?: (news: ChildNews) => void;
}

export interface CliContext extends Omit<CliWorld, 'secrets' | 'onSend' | 'onExit' | 'given'> {
  /** To run another command as this one runs. */
  readonly world: CliWorld;
  /** Reads and checks the settings on the first call. Throws a UsageError. */
  readonly settings: () => Settings;
  /** The settings of every server of the config file, for --all. Throws a UsageError if a flag applies to only one server. */
  readonly allSettings: () => readonly ServerReading[];
  /** The same for a command that shows the other servers beside its own. Ignores flags that apply to only one server. */
  readonly serversOfConfig: () => readonly ServerReading[];
  /** The settings with their origins and all problems, for commands that report on the settings themselves. */
  readonly reading: () => SettingsReading;
  /** What the command opens; closed when it ends, whatever its outcome. */
  readonly releases: Releases;
  /** The person or job that runs the command. */
  readonly actor: () => Actor;
  /** The name that its run was given; undefined if it has none yet. */
  readonly run: string | undefined;
  /** Sends something to the process that started this one for a report; undefined if nobody did. */
  readonly send: GivenByParent['send'];
  readonly flags: () => GlobalFlags;
  readonly json: () => boolean;
  readonly quiet: () => boolean;
  readonly verbose: () => boolean;
  /** Whether to colour what goes to the stream (standard output by default). */
  readonly color: (stream?: NodeJS.WriteStream) => boolean;
  /** Sets the exit code; the command continues. */
  readonly exit: (code: ExitCode) => void;
  /** Must be called before the first write is sent to a server. From then on, a failing standard output does not end the command. */
  readonly sends: () => void;
  /** Adds a word, such as a typed password, that must never be printed or logged. */
  readonly keepSecret: (word: string) => void;
  /** Returns the text without the key and other secrets. */
  readonly redact: (text: string) => string;
}

type GlobalFlags = Readonly<Record<string, string | boolean | undefined>>;

function flagValues(flags: GlobalFlags): FlagValue[] {
  const values: FlagValue[] = [];
  for (const setting of settingTable) {
    const flag = flagName(setting);
    const value = flag === undefined ? undefined : flags[new Option(flag).attributeName()];
    if (flag !== undefined && value !== undefined) values.push({ key: setting.key, flag, value });
  }
  return values;
}

/** Returns where the settings of a command come from. */
export function sourcesOf(
  { environment, folder, constants = {} }: Pick<CliWorld, 'environment' | 'folder' | 'constants'>,
  flags: GlobalFlags,
): SettingsSources {
  const log = flags['quiet'] === true ? quietLog : flags['verbose'] === true ? verboseLog : constants.log;
  return {
    flags: flagValues(flags),
    environment,
    folder,
    constants: { ...constants, ...(log !== undefined && { log }) },
  };
}

const quietLog = { level: 'warn' } as const;
const verboseLog = { level: 'debug' } as const;

/** Settings whose flags make sense for only one server. */
const perServer: readonly SettingKey[] = ['profile', 'api.base_url', 'store.mirror', 'store.journal'];

/** Creates the context of one command line, with the exit code that the command set. */
export function createContext(
  world: CliWorld,
  flags: () => GlobalFlags,
): CliContext & { readonly exitCode: () => ExitCode } {
  let read: SettingsReading | undefined;
  let code: ExitCode = 0;
  let keyKnown = false;
  const { secrets = new SecretWords() } = world;
  const sources = () => sourcesOf(world, flags());
  const { given } = world;
  const serversOfConfig = () => {
    if (given !== undefined) return given.servers;
    const flagsForAll = sources().flags.filter(({ key }) => !perServer.includes(key));
    const all = readAllSettings({ ...sources(), flags: flagsForAll });
    for (const { reading } of all) keepSecrets(secrets, reading.rest);
    return all;
  };
  const reading = () => (read ??= given?.reading ?? readSettings(sources()));
  const [stdout, stderr] = [sieved(world.stdout), sieved(world.stderr)];
  return {
    ...world,
    world,
    run: given?.run ?? undefined,
    send: given?.send,
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
      const own = sources().flags.find(({ key }) => perServer.includes(key));
      if (own !== undefined) {
        throw new UsageError(
          `${own.flag} is for one server, but this command runs for every server of the config file`,
          {
            advice: `Leave ${own.flag} out, or name one profile.`,
          },
        );
      }
      const all = serversOfConfig();
      if (all.some(({ profile }) => profile !== null)) return all;
      throw new UsageError('the config file has no profiles', {
        advice: 'Add them under "profiles:", or leave out --all.',
      });
    },
    serversOfConfig,
    reading,
    flags,
    actor: () => given?.actor ?? actorOf(world.environment),
    json: () => flags()['json'] === true,
    quiet: () => flags()['quiet'] === true,
    verbose: () => flags()['verbose'] === true,
    color: (stream = stdout) =>
      flags()['color'] !== false && (world.environment['NO_COLOR'] ?? '') === '' && stream.isTTY,
    exit: (next) => {
      code = next;
      world.onExit?.(next);
    },
    sends: () => world.onSend?.(),
    keepSecret: (word) => secrets.add(word),
    redact: (text) => secrets.redact(text),
    exitCode: () => code,
  };
}

/** Returns how a command prints that this one starts for the person at its terminal: as this one does. */
export function terminalOutput(context: Pick<CliContext, 'json' | 'quiet' | 'flags'>) {
  const color = context.flags()['color'] !== false;
  return { kind: 'terminal', json: context.json(), quiet: context.quiet(), color } as const;
}

/** Returns the interruption that aborted the signal, if that was the reason. */
export function interruptionOf(signal: AbortSignal): InterruptedError | undefined {
  const reason: unknown = signal.reason;
  return reason instanceof InterruptedError ? reason : undefined;
}

/** Waits until the command is stopped. Returns the interruption. */
export async function waitForStop({ signal }: Pick<CliContext, 'signal'>): Promise<InterruptedError | undefined> {
  if (!signal.aborted) await once(signal, 'abort');
  return interruptionOf(signal);
}

/** Makes sure that no secret of the settings appears in anything the command prints, or in a crash. */
function keepSecrets(secrets: SecretWords, settings: Settings): void {
  for (const secret of secretsIn(settings)) secrets.add(secret.reveal());
  for (const read of [() => keyOf(settings).key, () => sharedStoreOf(settings)?.password]) {
    try {
      const secret = read();
      if (secret !== undefined) secrets.add(secret.reveal());
    } catch {
      // It cannot be read, so it cannot leak. Whoever needs it reports the problem.
    }
  }
}

/** Every Secret in the settings, at any depth. */
function* secretsIn(value: unknown): Generator<Secret> {
  if (value instanceof Secret) yield value;
  else if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) yield* secretsIn(each);
}
