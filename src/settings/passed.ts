/** Passes settings to a child process, since a message between processes can only hold plain data. */
import { Secret, SecretAddress } from '../model/secret.ts';
import type { ServerReading, Settings, SettingsReading } from './settings.ts';
import { allSettings, isSecret, type SettingKey, settingOf } from './table.ts';

/** Contains the secrets in clear. It must go through the channel to a child process and nowhere else. */
export interface PassedSettings {
  readonly plain: unknown;
}

interface Mark {
  readonly [kind: `$${string}`]: string;
}

const revived = {
  $secret: (text: string) => new Secret(text),
  $address: (text: string) => new SecretAddress(text),
  $url: (text: string) => new URL(text),
} as const;

function markOf(value: object): Mark | undefined {
  if (value instanceof SecretAddress) return { $address: value.reveal() };
  if (value instanceof Secret) return { $secret: value.reveal() };
  return value instanceof URL ? { $url: value.href } : undefined;
}

export function passedSettings(settings: Settings): PassedSettings {
  return { plain: mapped(settings, markOf) };
}

export function receivedSettings({ plain }: PassedSettings): Settings {
  return mapped(plain, reviving) as Settings;
}

function reviving(value: object): object | undefined {
  const [[kind, text] = [], ...more] = Object.entries(value);
  const isMark = more.length === 0 && kind !== undefined && Object.hasOwn(revived, kind);
  return isMark ? revived[kind as keyof typeof revived](String(text)) : undefined;
}

/** What a command works with: its own settings, and those of the other servers, whose files it must not overwrite. */
export interface GivenSettings {
  readonly reading: SettingsReading;
  readonly servers: readonly ServerReading[];
}

function passedReading({ readings, approval, problems, warnings, settings }: SettingsReading): PassedSettings {
  const [problem] = problems;
  if (settings === undefined) throw problem ?? new Error('settings without problems are missing');
  const named = readings.map(({ setting, value, origin }) => ({ key: setting.key, value, origin }));
  return { plain: mapped({ readings: named, approval, warnings, settings }, markOf) };
}

export function receivedReading({ plain }: PassedSettings): SettingsReading {
  const { readings, approval, warnings, settings } = mapped(plain, reviving) as Pick<
    SettingsReading,
    'approval' | 'warnings'
  > & {
    readonly readings: readonly { readonly key: SettingKey; readonly value: string | null; readonly origin: string }[];
    readonly settings: Settings;
  };
  const whole = readings.map(({ key, value, origin }) => ({ setting: settingOf(key), value, origin }));
  const rest = { problems: [], isUndecided: false, config: () => undefined };
  return { ...rest, readings: whole, approval, warnings, settings, rest: settings };
}

/** Leaves out servers whose settings have a problem: their files are not known. Throws the first problem of the command's own. */
export function passedToChild({ reading, servers }: GivenSettings) {
  const sound = servers.filter((each) => each.reading.settings !== undefined);
  return {
    reading: passedReading(reading),
    servers: { plain: sound.map((each) => ({ profile: each.profile, reading: passedReading(each.reading) })) },
  };
}

export function receivedServers({ plain }: PassedSettings): ServerReading[] {
  const servers = plain as readonly { readonly profile: string | null; readonly reading: PassedSettings }[];
  return servers.map(({ profile, reading }) => ({ profile, reading: receivedReading(reading) }));
}

const secretNames = allSettings.filter(isSecret).map(({ env }) => env);

/** Returns the environment for other programs and for children, without the keys of all profiles and other secrets. */
export function withoutSecrets(environment: Readonly<Record<string, string | undefined>>) {
  const holdsSecret = (name: string) => secretNames.some((each) => name === each || name.startsWith(`${each}_`));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !holdsSecret(name)));
}

/** The same settings without a way to the server: for a rehearsal, which must not be able to reach it. */
export function withoutServer({ reading }: GivenSettings): GivenSettings {
  const cut = (settings: Settings): Settings => ({
    ...settings,
    api: { ...settings.api, baseUrl: undefined, key: undefined, keyFile: undefined },
  });
  const { settings, rest } = reading;
  const readings = reading.readings.map((each) =>
    each.setting.key.startsWith('api.') ? { ...each, value: null, origin: 'default' } : each,
  );
  return { reading: { ...reading, readings, settings: settings && cut(settings), rest: cut(rest) }, servers: [] };
}

/** Replaces every object in the value by what `change` returns, or, if that is undefined, changes its members in turn. */
function mapped(value: unknown, change: (value: object) => object | undefined): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const changed = change(value);
  if (changed !== undefined) return changed;
  if (Array.isArray(value)) return value.map((each) => mapped(each, change));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, change)]));
}
