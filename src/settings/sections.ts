/** The settings as the program gets them: by section, with absolute paths and times in ms. */
import { resolve } from 'node:path';
import type { ApprovalPolicies } from '../model/approval.ts';
import type { Job } from '../model/job.ts';
import { Secret, type SecretAddress } from '../model/secret.ts';
import type { SecretFile } from './kinds.ts';
import type { SettingsSources } from './settings.ts';
import { allSettings, constants, type Setting, type SettingKey, type SettingValues, type TimeKey } from './table.ts';

/** The beginning of a path that leads to a systemd credential. */
const credentialsWord = '${CREDENTIALS_DIRECTORY}';

type Camel<Name extends string> = Name extends `${infer First}_${infer Rest}`
  ? `${First}${Capitalize<Camel<Rest>>}`
  : Name;

type NameIn<Section extends string, Key extends string> = Key extends `${Section}.${infer Name}`
  ? Exclude<Name, `${string}.${string}`>
  : never;

/** The names in the program: `bulk.settle_after` is `settleAfterMs` of the section `bulk`. */
type Section<Name extends string> = {
  readonly [K in SettingKey as `${Camel<NameIn<Name, K>>}${K extends TimeKey ? 'Ms' : ''}`]: PlainValue<
    SettingValues[K]
  >;
} & {
  readonly [K in SettingKey as SecretFile extends SettingValues[K] ? `${Camel<NameIn<Name, K>>}File` : never]:
    | string
    | undefined;
};

type PlainValue<Value> = SecretFile extends Value ? Secret | undefined : Value;

export function settingsOf(
  values: SettingValues,
  { folder, environment, constants: other = {} }: SettingsSources,
  more: {
    readonly jobs: readonly Job[];
    readonly approval: ApprovalPolicies;
    readonly keyIsOpen: boolean;
    readonly rivals: readonly string[];
    readonly proxy: SecretAddress | undefined;
    readonly noProxy: string | undefined;
  },
) {
  const { CREDENTIALS_DIRECTORY: credentials } = environment;
  const absolute = (path: string) =>
    resolve(folder, credentials === undefined ? path : path.replace(credentialsWord, () => credentials));

  /** Returns the settings of the section, with absolute paths. */
  function section<Name extends string>(name: Name): Section<Name> {
    const own: Record<string, unknown> = {};
    for (const { key, kind } of allSettings) {
      const written = key.slice(name.length + 1);
      if (key !== `${name}.${written}` || written.includes('.')) continue;
      const short = written.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
      const value = values[key];
      if (kind.is === 'secret') {
        const { file } = (value instanceof Secret ? undefined : (value as SecretFile | undefined)) ?? {};
        own[short] = file === undefined ? value : undefined;
        own[`${short}File`] = file === undefined ? undefined : absolute(file);
      } else {
        const files = filesIn(value, { kind }).map(absolute);
        const inForce = kind.is === 'path' ? files[0] : kind.is === 'pem' && value !== undefined ? files : value;
        own[kind.is === 'duration' ? `${short}Ms` : short] = inForce;
      }
    }
    return Object.freeze(own) as Section<Name>;
  }

  const { profile } = values;
  const api = section('api');
  const schema = profile ?? 'mirror';
  return Object.freeze({
    /** Undefined for the server outside of the profiles. */
    profile,
    environment: values.environment,
    /** Other profiles with the same server and a journal of their own, in words. */
    rivals: more.rivals,
    /** Use `serverOf` for the address and the key: it checks both, and reads the key file. */
    api: Object.freeze({
      ...api,
      ...constants.api,
      ...other.api,
      /** The key is in a `.env` that other users can read. */
      keyIsOpen: more.keyIsOpen,
      /** The key file is a systemd credential, whose permissions are systemd's business. */
      keyIsCredential: (credentials ?? '') !== '' && api.keyFile?.startsWith(`${resolve(credentials ?? '')}/`) === true,
    }),
    network: Object.freeze({
      ...section('network'),
      /** HTTPS_PROXY and NO_PROXY, as other programs read them: for https addresses, except for these hosts. */
      proxy: more.proxy,
      noProxy: more.noProxy,
    }),
    /** Use `sharedStoreOf` for the shared store: it reads the password file. */
    store: section('store'),
    backup: Object.freeze({ folder: resolve(folder, 'data/backups', profile ?? '') }),
    sync: Object.freeze({ ...section('sync'), ...constants.sync, ...other.sync }),
    resources: values.resources,
    history: section('history'),
    /** `approval` comes from the config file alone. */
    bulk: Object.freeze({ ...section('bulk'), ...constants.bulk, ...other.bulk, approval: more.approval }),
    /** The folder with the operator's own saved reports. */
    export: Object.freeze({ reports: resolve(folder, 'config/reports') }),
    /** Each profile has a schema of its own, and a role that may read it. */
    publish: Object.freeze({ ...section('publish'), schema, reader: `${schema}_reader` }),
    serve: Object.freeze({ ...section('serve'), oidc: section('serve.oidc') }),
    worker: section('worker'),
    alerts: section('alerts'),
    log: Object.freeze({ ...constants.log, ...other.log }),
    /** The worker's jobs in the order of the config file, the only place for them. */
    jobs: Object.freeze(more.jobs),
  });
}

/** Returns the files that a value names, as they were given. */
export function filesIn(value: unknown, { kind }: Pick<Setting, 'kind'>): readonly string[] {
  if (kind.is === 'secret' && value !== undefined && !(value instanceof Secret)) return [(value as SecretFile).file];
  const isFile = kind.is === 'path' || kind.is === 'pem';
  return isFile && value !== undefined ? ([value].flat() as string[]) : [];
}
