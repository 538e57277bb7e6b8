/** Passes settings to a child process, since a message between processes can only hold plain data. */
import { Secret, SecretAddress } from '../model/secret.ts';
import type { Settings } from './settings.ts';

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
  return mapped(plain, (value) => {
    const [[kind, text] = [], ...more] = Object.entries(value);
    const isMark = more.length === 0 && kind !== undefined && Object.hasOwn(revived, kind);
    return isMark ? revived[kind as keyof typeof revived](String(text)) : undefined;
  }) as Settings;
}

/** Replaces every object in the value by what `change` returns, or, if that is undefined, changes its members in turn. */
function mapped(value: unknown, change: (value: object) => object | undefined): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const changed = change(value);
  if (changed !== undefined) return changed;
  if (Array.isArray(value)) return value.map((each) => mapped(each, change));
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, mapped(each, change)]));
}
