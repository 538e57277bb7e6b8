/** Reads the YAML config file: values by setting key, jobs, approval policies and profiles. Each of them, and each problem, names its line. */
import { resolve } from 'node:path';
import { isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { fileReason, notUtf8, readTrustedFile } from '../model/files.ts';
import { isEmpty, type Placed } from './block.ts';
import { profileName } from './kinds.ts';
import { allSettings, type SettingKey } from './table.ts';

interface FileSettings {
  /** The value of a secret is its file. */
  readonly values: ReadonlyMap<SettingKey, Placed>;
  /** Unchecked; undefined if the file has no `jobs`. */
  readonly jobs: readonly Placed[] | undefined;
  /** The blocks of `bulk.approval` by action, unchecked. */
  readonly approval: ReadonlyMap<string, Placed>;
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
    .map(({ key, kind }) => [kind.is === 'secret' ? `${key}_file` : key, key] as const),
);

/** @param name what errors call the file */
export function parseConfigFile(text: string, name: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const placeAt = (position: number) => `${name}:${lines.linePos(position).line}`;
  // The others often follow from the first.
  const [wrong] = document.errors;
  if (wrong !== undefined) return refusedFile(unreadable(placeAt(wrong.pos[0]), wrong.message));

  /** Returns what stands there. Aliases lead to what they stand for. @param origin that of its name */
  function placedOf(node: unknown, origin = placeAt((node as Node | null)?.range?.[0] ?? 0)): Placed {
    if (isAlias(node)) return placedOf(node.resolve(document), origin);
    if (isMap(node)) {
      const pairs = node.items.map(({ key, value }) => {
        const word = isScalar(key) ? String(key.value) : String(key);
        return [word, placedOf(value, placeAt((key as Node | null)?.range?.[0] ?? 0))] as const;
      });
      return { value: node.toJS(document), origin, entries: new Map(pairs) };
    }
    if (isSeq(node)) {
      return { value: node.toJS(document), origin, items: node.items.map((item) => placedOf(item)) };
    }
    return { value: isScalar(node) ? node.value : null, origin };
  }

  let root: Placed;
  try {
    // It refuses what no later code could walk through: what repeats itself without end, is nested too deeply, or holds itself.
    JSON.stringify(document.toJS());
    root = placedOf(document.contents);
  } catch (error) {
    const why = error instanceof RangeError ? 'it is nested too deeply' : 'it refers to something that contains it';
    return refusedFile(unreadable(placeAt(0), error instanceof ReferenceError ? String(error) : why));
  }
  return readFile(root);
}

function readFile(root: Placed): ConfigFile {
  const problems: UsageError[] = [];
  const profiles: FileProfile[] = [];

  function entriesOf(placed: Placed, what: string): ReadonlyMap<string, Placed> {
    const { entries = new Map<string, Placed>(), origin } = placed;
    const isWrong = placed.entries === undefined && !isEmpty(placed);
    if (isWrong) problems.push(new UsageError(`${origin}: ${what} must hold settings as "name: value"`));
    return entries;
  }

  function readSettings(own: Placed, profile?: string): FileSettings {
    const values = new Map<SettingKey, Placed>();
    let approval: FileSettings['approval'] = new Map();
    let jobs: FileSettings['jobs'];
    const readSection = (section: Placed, prefix: string): void => {
      const whole = profile === undefined ? 'the file' : `the profile "${profile}"`;
      for (const [word, placed] of entriesOf(section, prefix === '' ? whole : `"${prefix}"`)) {
        const key = prefix === '' ? word : `${prefix}.${word}`;
        const origin = profile === undefined ? placed.origin : `${placed.origin}, profile ${profile}`;
        const known = key === 'profile' && profile !== undefined ? undefined : fileKeys.get(key);
        if (key === 'jobs') jobs = readJobs(placed);
        else if (key === 'bulk.approval') approval = readPolicies(placed);
        else if (key === 'profiles' && profile === undefined) readProfiles(placed);
        else if (known !== undefined) {
          // `name:` with nothing after it is the same as leaving it out.
          if (isEmpty(placed)) continue;
          values.set(known, { value: known === key ? placed.value : { file: placed.value }, origin });
        } else if ([...fileKeys.keys()].some((each) => each.startsWith(`${key}.`))) readSection(placed, key);
        else problems.push(unknownKey(key, origin));
      }
    };
    readSection(own, '');
    return { values, approval, jobs };
  }

  function readPolicies(placed: Placed): FileSettings['approval'] {
    const policies = [...entriesOf(placed, '"bulk.approval"')].filter(([word, { entries, origin }]) => {
      // Elsewhere a name with nothing after the colon counts as left out. Here that would silently remove a safeguard.
      if (entries !== undefined && ![...entries.values()].some(isEmpty)) return true;
      const advice = 'Write its thresholds below it, such as "net: 500", or {} if it always needs approval.';
      const message = `${origin}: "bulk.approval.${word}" must hold settings as "name: value"`;
      problems.push(new UsageError(message, { advice }));
      return false;
    });
    return new Map(policies);
  }

  function readProfiles(placed: Placed): void {
    for (const [name, own] of entriesOf(placed, '"profiles"')) {
      const problem = nameProblem(name, profiles);
      if (problem !== undefined) problems.push(new UsageError(`${own.origin}: the profile "${name}" ${problem}`));
      const before = problems.length;
      const settings = readSettings(own, name);
      if (problem === undefined) {
        profiles.push({ name, ...settings, origin: own.origin, problems: problems.splice(before) });
      }
    }
  }

  function readJobs(placed: Placed): FileSettings['jobs'] {
    if (isEmpty(placed)) return undefined;
    if (placed.items === undefined) {
      const advice = 'Begin each job with "- name: …".';
      problems.push(new UsageError(`${placed.origin}: "jobs" must be a list`, { advice }));
    }
    return placed.items?.filter(({ entries, origin }) => {
      if (entries === undefined) problems.push(new UsageError(`${origin}: a job must hold settings as "name: value"`));
      return entries !== undefined;
    });
  }

  return { ...readSettings(root), profiles, problems };
}

function refusedFile(...problems: readonly UsageError[]): ConfigFile {
  return { values: new Map(), approval: new Map(), jobs: undefined, profiles: [], problems };
}

function unreadable(place: string, what: string): UsageError {
  const advice = 'The config file must be YAML; config/admin-mirror.example.yaml shows every setting.';
  return new UsageError(`${place}: ${what}`, { advice });
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
    return problem === undefined ? parseConfigFile(bytes.toString('utf8'), name) : refusedFile(problem);
  } catch (error) {
    if (error instanceof UsageError) return refusedFile(error);
    if (!required && (error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const advice = 'Correct --config or ADMIN_MIRROR_CONFIG, or leave it out to use config/admin-mirror.yaml.';
    return refusedFile(new UsageError(`the config file ${name} cannot be read: ${fileReason(error)}`, { advice }));
  }
}
