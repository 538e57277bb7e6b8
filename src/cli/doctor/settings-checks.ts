/** The doctor on what was set: Node, the settings, the address and the key. */
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { counted } from '../../model/counted.ts';
import { baseUrlOf, certificatesIn, keyOf } from '../../settings/server.ts';
import { type Settings, type SettingsReading, valueOf } from '../../settings/settings.ts';
import { type Check, failed, ok, warn } from './check.ts';

export function checkNode(): Check {
  return ok('node', process.versions.node);
}

/** The config file and every setting in it or elsewhere that is wrong. */
export function checkSettings(reading: SettingsReading, folder: string): Check[] {
  const { value } = valueOf(reading, 'config');
  const none = ok('config file', 'none; flags, environment and defaults are used');
  const there = value !== null && existsSync(resolve(folder, String(value)));
  const problems = reading.problems.map((problem) => failed('settings', problem));
  return [
    // One that was asked for and is not there is among the problems.
    ...(value === null ? [none] : there ? [ok('config file', String(value))] : []),
    ...profileChecks(reading),
    ...(problems.length > 0 ? problems : [ok('settings', 'every value is understood')]),
    ...reading.warnings.map((each) => warn('settings', each)),
  ];
}

/** Which of several servers it is about. */
function profileChecks(reading: SettingsReading): Check[] {
  const { value, origin } = valueOf(reading, 'profile');
  return reading.rest.profile === undefined ? [] : [ok('profile', `${String(value)} (${origin})`)];
}

export function checkAddress(reading: SettingsReading, settings: Settings): Check[] {
  const { value, origin } = valueOf(reading, 'api.base_url');
  // One that was refused is among the problems of the settings.
  if (value !== null && settings.api.baseUrl === undefined) return [];
  try {
    return [ok('base address', `${baseUrlOf(settings)} (${origin})`)];
  } catch (error) {
    return [failed('base address', error)];
  }
}

export function checkKey(reading: SettingsReading, settings: Settings): Check[] {
  try {
    const { key, warnings } = keyOf(settings);
    const from = settings.api.key === undefined ? 'api.key_file' : 'api.key';
    const found = ok('key', `${key.toString()} (${valueOf(reading, from).origin})`);
    return [found, ...warnings.map((each) => warn('key', each))];
  } catch (error) {
    return [failed('key', error)];
  }
}

/** The proxy and the certificates of one's own, where there are any. */
export function checkNetwork(reading: SettingsReading, settings: Settings): Check[] {
  const { proxy, noProxy, caFile } = settings.network;
  const from = (key: 'network.proxy' | 'network.ca_file') => valueOf(reading, key).origin;
  const without = noProxy === undefined ? '' : `, but for ${noProxy}`;
  return [
    ...(proxy === undefined
      ? []
      : [ok('proxy', `${proxy.host} for https addresses${without} (${from('network.proxy')})`)]),
    ...(caFile === undefined ? [] : [checkCertificates(caFile, from('network.ca_file'))]),
  ];
}

function checkCertificates(file: string, origin: string): Check {
  try {
    return ok('certificates', `${counted(certificatesIn(file).length, 'more certificate')} to trust (${origin})`);
  } catch (error) {
    return failed('certificates', error);
  }
}
