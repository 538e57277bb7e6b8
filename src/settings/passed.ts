/** Passes settings to a child process, since a message between processes can only hold plain data. */
import { Secret, SecretAddress } from '../model/secret.ts';
import { type ServerReading, type Settings, settingsFrom, type SettingsReading } from './settings.ts';
import { allSettings, isHidden } from './table.ts';

/** Contains the secrets in clear. It must go through the channel to a child process and nowhere else. */
interface PassedSettings {
  readonly plain: unknown;
}

function markOf(value: object): object | undefined {
  if (value instanceof SecretAddress) return { $address: value.reveal() };
  return value instanceof Secret ? { $secret: value.reveal() } : undefined;
}

function reviving(value: object): object | undefined {
  if ('$address' in value) return new SecretAddress(String(value.$address));
  return '$secret' in value ? new Secret(String(value.$secret)) : undefined;
}

/** Replaces every object in the value by what `change` returns, or, if that is undefined, changes its members in turn. */
function mapped(value: unknown, change: (value: object) => object | undefined): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const changed = change(value);
  if (changed !== undefined) return changed;
  if (Array.isArray(value)) return value.map((each) => mapped(each, change));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, change)]));
}

/** What a command works with: its own settings, and those of the other servers, whose files it must not overwrite. */
export interface GivenSettings {
  readonly reading: SettingsReading;
  readonly servers: readonly ServerReading[];
}

/** Leaves out servers whose settings have a problem: their files are not known. Throws the first problem of the command's own. */
export function passedToChild({ reading, servers }: GivenSettings): PassedSettings {
  settingsFrom(reading);
  const sound = servers.filter((each) => each.reading.settings !== undefined);
  return { plain: mapped({ reading, servers: sound }, markOf) };
}

export function receivedByChild({ plain }: PassedSettings): GivenSettings {
  return mapped(plain, reviving) as GivenSettings;
}

const secretNames = [...allSettings.filter(isHidden).map(({ env }) => env), 'HTTPS_PROXY', 'https_proxy'];

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
    each.key.startsWith('api.') ? { ...each, value: null, origin: 'default', files: [] } : each,
  );
  return { reading: { ...reading, readings, settings: settings && cut(settings), rest: cut(rest) }, servers: [] };
}
