/** Reads the YAML config file: values by setting key, jobs, approval policies and profiles. Each of them, and each problem, names its line. */
import { resolve } from 'node:path';
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLMap } from 'yaml';
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { fileReason, notUtf8, readTrustedFile } from '../model/files.ts';
import type { WrittenPolicy } from './approval.ts';
import type { Placed, WrittenJob } from './jobs.ts';
import { profileName } from './kinds.ts';
import { allSettings, type SettingKey } from './table.ts';

interface FileSettings {
  /** The value of a secret is its file. */
  readonly values: ReadonlyMap<SettingKey, Placed>;
  /** Unchecked; undefined if the file has no `jobs`. */
  readonly jobs: readonly WrittenJob[] | undefined;
  /** The policies of `bulk.approval`, unchecked. */
  readonly approval: readonly WrittenPolicy[];
}

/** A server with settings of its own, which override the common ones. Its jobs replace the common ones. */
export interface FileProfile extends FileSettings {
  readonly name: string;
  readonly origin: string;
  /** Problems that concern no other profile. */
  readonly problems: readonly UsageError[];
}

export interface ConfigFile extends FileSettings {
  readonly profiles: readonly FileProfile[];
  readonly problems: readonly UsageError[];
}

/** The keys of the file. That of a secret names its file: `api.key_file`. */
const fileKeys: ReadonlyMap<string, SettingKey> = new Map(
  allSettings
    .filter((each) => each.inFile)
    .map(({ key, kind }) => [kind.name === 'secret' ? `${key}_file` : key, key] as const),
);

/** @param name what errors call the file */
export function parseConfigFile(text: string, name: string): ConfigFile {
  try {
    return readText(text, name);
  } catch (error) {
    // The parser throws a RangeError for a file that is nested too deeply, and a ReferenceError for an alias of nothing.
    if (!(error instanceof RangeError || error instanceof ReferenceError)) throw error;
    return refused(unreadable(name, error instanceof RangeError ? 'it is nested too deeply' : String(error)));
  }
}

function refused(...problems: readonly UsageError[]): ConfigFile {
  return { values: new Map(), approval: [], jobs: undefined, profiles: [], problems };
}

function unreadable(place: string, what: string): UsageError {
  const advice = 'The config file must be YAML; config/admin-mirror.example.yaml shows every setting.';
  return new UsageError(`${place}: ${what}`, { advice });
}

function readText(text: string, name: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const placeAt = (position: number) => `${name}:${lines.linePos(position).line}`;
  const placeOf = (node: unknown) => placeAt((node as Node | null)?.range?.[0] ?? 0);
  // The others often follow from the first.
  const [wrong] = document.errors;
  if (wrong !== undefined) return refused(unreadable(placeAt(wrong.pos[0]), wrong.message));
  const problems: UsageError[] = [];
  const profiles: FileProfile[] = [];

  /** Returns the value without YAML's own objects. */
  function plainOf(node: unknown): unknown {
    if (isScalar(node)) return node.value;
    const plain: unknown = (node as Node | null)?.toJS(document);
    try {
      // It refuses what no later code could walk through.
      JSON.stringify(plain);
      return plain;
    } catch {
      problems.push(new UsageError(`${placeOf(node)}: it refers to something that contains it`));
      return undefined;
    }
  }

  function pairsOf(node: unknown, what: string) {
    if (isEmpty(node)) return [];
    if (!isMap(node)) {
      problems.push(new UsageError(`${placeOf(node)}: ${what} must hold settings as "name: value"`));
      return [];
    }
    return node.items.map((pair) => {
      const word = isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
      return { word, value: pair.value, origin: placeOf(pair.key) };
    });
  }

  function readSettings(node: unknown, profile?: string): FileSettings {
    const values = new Map<SettingKey, Placed>();
    const approval: WrittenPolicy[] = [];
    let jobs: WrittenJob[] | undefined;
    const readSection = (section: unknown, prefix: string): void => {
      const whole = profile === undefined ? 'the file' : `the profile "${profile}"`;
      for (const { word, value, origin: at } of pairsOf(section, prefix === '' ? whole : `"${prefix}"`)) {
        const key = prefix === '' ? word : `${prefix}.${word}`;
        const origin = profile === undefined ? at : `${at}, profile ${profile}`;
        const known = key === 'profile' && profile !== undefined ? undefined : fileKeys.get(key);
        if (key === 'jobs') jobs = readJobList(value, origin);
        else if (key === 'bulk.approval') approval.push(...readPolicies(value));
        else if (key === 'profiles' && profile === undefined) readProfiles(value);
        else if (known !== undefined) {
          const plain = plainOf(value);
          // `name:` with nothing after it is the same as leaving it out.
          if (plain === null || plain === undefined) continue;
          const isSecret = known !== key;
          values.set(known, { value: isSecret ? { file: plain } : plain, origin });
        } else if ([...fileKeys.keys()].some((each) => each.startsWith(`${key}.`))) readSection(value, key);
        else problems.push(unknownKey(key, origin));
      }
    };
    readSection(node, '');
    return { values, approval, jobs };
  }

  function readPolicies(node: unknown): WrittenPolicy[] {
    return pairsOf(node, '"bulk.approval"').flatMap(({ word, value, origin }) => {
      const entries = isMap(value) ? entriesOf(value) : undefined;
      // Elsewhere a name with nothing after the colon counts as left out. Here that would silently remove a safeguard.
      if (isMap(value) && entries?.size === value.items.length) return [{ subject: word, origin, entries }];
      const advice = 'Write its thresholds below it, such as "net: 500", or {} if it always needs approval.';
      problems.push(
        new UsageError(`${origin}: "bulk.approval.${word}" must hold settings as "name: value"`, { advice }),
      );
      return [];
    });
  }

  function readProfiles(node: unknown): void {
    for (const { word, value, origin } of pairsOf(node, '"profiles"')) {
      const problem = nameProblem(word, profiles);
      if (problem !== undefined) problems.push(new UsageError(`${origin}: the profile "${word}" ${problem}`));
      const before = problems.length;
      const own = readSettings(value, word);
      if (problem === undefined) profiles.push({ name: word, ...own, origin, problems: problems.splice(before) });
    }
  }

  function readJobList(node: unknown, origin: string): WrittenJob[] | undefined {
    if (isEmpty(node)) return undefined;
    if (!isSeq(node)) {
      const advice = 'Begin each job with "- name: …".';
      problems.push(new UsageError(`${origin}: "jobs" must be a list`, { advice }));
      return undefined;
    }
    return node.items.flatMap((item) => {
      if (isMap(item)) return [{ origin: placeOf(item), entries: entriesOf(item) }];
      problems.push(new UsageError(`${placeOf(item)}: a job must hold settings as "name: value"`));
      return [];
    });
  }

  function entriesOf(map: YAMLMap): Map<string, Placed> {
    const entries = new Map<string, Placed>();
    for (const { key, value } of map.items) {
      const plain = plainOf(value);
      // `timezone:` with nothing after it is the same as leaving it out.
      if (plain === null || plain === undefined) continue;
      entries.set(isScalar(key) ? String(key.value) : String(key), { value: plain, origin: placeOf(key) });
    }
    return entries;
  }

  return { ...readSettings(document.contents), profiles, problems };
}

/** Whether nothing stands after the colon. */
function isEmpty(node: unknown): boolean {
  return node === null || (isScalar(node) && node.value === null);
}

/** Returns why a profile cannot have this name, which becomes a folder and, in capitals, the end of variables; undefined if it can. */
function nameProblem(name: string, others: readonly FileProfile[]): string | undefined {
  if (!profileName.test(name)) return 'needs a name of up to 32 letters, digits, - and _';
  // ADMIN_MIRROR_API_KEY_FILE names a key file.
  if (variableEnd(name) === 'FILE') return 'needs another name: the variable of its key would be that of a key file';
  const same = others.find((each) => variableEnd(each.name) === variableEnd(name));
  return same === undefined ? undefined : `is too similar to "${same.name}": their variables would be the same`;
}

/** The end of a profile's variables: `staging-2` → `STAGING_2`. */
export function variableEnd(profile: string): string {
  return profile.toUpperCase().replaceAll('-', '_');
}

function unknownKey(key: string, origin: string): UsageError {
  const secret = fileKeys.get(`${key}_file`);
  if (secret !== undefined) {
    const { env } = allSettings.find((each) => each.key === secret) ?? {};
    return new UsageError(`${origin}: a secret does not belong in the config file`, {
      advice: `Set ${env}, or write it into a file of its own and name that in ${key}_file.`,
    });
  }
  const names = [...fileKeys.keys()];
  // A word without a dot is a misspelt section (`apis:`) or a setting outside of its section (`base_url:`).
  const sections = [...new Set([...names.map((each) => each.split('.')[0] ?? each), 'profiles', 'jobs'])];
  const known = key.includes('.') ? [...names, 'bulk.approval'] : [...sections, ...names];
  const isNear = nearestNames(key, known).length > 0;
  const advice = isNear ? suggestion(key, known) : 'config/admin-mirror.example.yaml shows every setting.';
  return new UsageError(`${origin}: unknown setting "${key}"`, { advice });
}

/** Reads the file. Returns undefined if there is none and it is not required. */
export function readConfigFile(folder: string, name: string, required: boolean): ConfigFile | undefined {
  try {
    const { bytes } = readTrustedFile(resolve(folder, name), `the config file ${name}`);
    const problem = notUtf8(bytes, name);
    return problem === undefined ? parseConfigFile(bytes.toString('utf8'), name) : refused(problem);
  } catch (error) {
    if (error instanceof UsageError) return refused(error);
    if (!required && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const advice = 'Correct --config or ADMIN_MIRROR_CONFIG, or leave it out to use config/admin-mirror.yaml.';
    return refused(new UsageError(`the config file ${name} cannot be read: ${fileReason(error)}`, { advice }));
  }
}
