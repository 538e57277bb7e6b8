/** Reads the YAML config file: values by setting key, jobs, approval policies and profiles. Each of them, and each problem, names its line. */
import { readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { isMap, isScalar, isSeq, LineCounter, type Node, parse, parseDocument, visit, type YAMLMap } from 'yaml';
import { nearestNames, suggestion, UsageError } from '../model/errors.ts';
import { fileReason, notUtf8, type ReadFile, readTrustedFile } from '../model/files.ts';
import type { WrittenPolicy } from './approval.ts';
import type { Placed, WrittenJob } from './jobs.ts';
import { profileName } from './kinds.ts';
import { allSettings, type SettingKey } from './table.ts';

export interface FileValue {
  readonly key: SettingKey;
  readonly value: unknown;
  /** `config/admin-mirror.yaml:12` */
  readonly origin: string;
}

interface FileSettings {
  readonly values: readonly FileValue[];
  /** Unchecked; undefined if the file has no `jobs`. */
  readonly jobs: readonly WrittenJob[] | undefined;
  /** The policies of `bulk.approval`, unchecked. */
  readonly approval: readonly WrittenPolicy[];
}

/** A server with settings of its own, which override the common ones. Its jobs replace the common ones. */
export interface FileProfile extends FileSettings {
  readonly name: string;
  readonly origin: string;
  /** The text of its own file, if it has one. */
  readonly text?: string;
  /** Problems that concern no other profile. */
  readonly problems: readonly UsageError[];
}

export interface ConfigFile extends FileSettings {
  readonly profiles: readonly FileProfile[];
  /** The folder with a file NAME.yaml for each profile, if `profiles` names one. */
  readonly profilesFolder?: string;
  readonly problems: readonly UsageError[];
  /** The bytes of the file; undefined for text that came from no file, and for a file that was refused. */
  readonly bytes?: Buffer;
}

interface Found {
  readonly values: FileValue[];
  readonly approval: WrittenPolicy[];
  jobs: WrittenJob[] | undefined;
}

const fileKeys = allSettings.filter((each) => each.inFile).map((each) => each.key);

/** @param name what errors call the file @param profile the profile whose settings the text holds, if it is a profile's file */
export function parseConfigFile(text: string, name: string, profile?: string): ConfigFile {
  try {
    return readText(text, name, profile);
  } catch (error) {
    // The parser throws some errors only when it makes the values, and a RangeError for a file that is nested too deeply.
    const { name: kind, message } = error as Error;
    if (kind !== 'RangeError' && kind !== 'ReferenceError') throw error;
    return refused(unreadable(name, kind === 'RangeError' ? 'it is nested too deeply' : message));
  }
}

function refused(...problems: readonly UsageError[]): ConfigFile {
  return { values: [], approval: [], jobs: undefined, profiles: [], problems };
}

function unreadable(place: string, what: string): UsageError {
  const advice = 'The config file must be YAML; config/admin-mirror.example.yaml shows every setting.';
  return new UsageError(`${place}: ${what}`, { advice });
}

function readText(text: string, name: string, ofProfile: string | undefined): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const lineAt = (position: number) => lines.linePos(position).line;
  // After this one, the others say nothing: the parser gave up in the middle.
  const tooDeep = document.errors.find(({ code }) => code === 'RESOURCE_EXHAUSTION');
  if (tooDeep !== undefined) return refused(unreadable(`${name}:${lineAt(tooDeep.pos[0])}`, 'it is nested too deeply'));
  const profiles: FileProfile[] = [];
  let profilesFolder: string | undefined;
  const problems = document.errors.map((error) => unreadable(`${name}:${lineAt(error.pos[0])}`, error.message));
  visit(document, {
    Alias: (_, alias, path) => {
      // A value that contains itself is endless, and cannot be printed.
      const source = alias.resolve(document);
      if (source === undefined || !path.includes(source)) return;
      problems.push(
        unreadable(`${name}:${lineAt(alias.range?.[0] ?? 0)}`, `*${alias.source} refers to something that contains it`),
      );
    },
  });
  if (problems.length > 0) return refused(...problems);

  const lineOf = (node: unknown) => lineAt((node as Node | null)?.range?.[0] ?? 0);

  function pairsOf(node: unknown, what: string) {
    if (isEmpty(node)) return [];
    if (!isMap(node)) {
      problems.push(new UsageError(`${name}:${lineOf(node)}: ${what} must hold settings as "name: value"`));
      return [];
    }
    return node.items.map((pair) => {
      const word = isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
      return { word, value: pair.value, origin: `${name}:${lineOf(pair.key)}` };
    });
  }

  function readSettings(node: unknown, profile?: string): FileSettings {
    const into: Found = { values: [], approval: [], jobs: undefined };
    readMap(node, '', into, profile);
    return into;
  }

  function readMap(node: unknown, prefix: string, into: Found, profile: string | undefined): void {
    const whole = profile === undefined ? 'the file' : `the profile "${profile}"`;
    for (const pair of pairsOf(node, prefix === '' ? whole : `"${prefix}"`)) {
      const key = prefix === '' ? pair.word : `${prefix}.${pair.word}`;
      const known = fileKeys.find((each) => each === key && (each !== 'profile' || profile === undefined));
      const origin = profile === undefined ? pair.origin : `${pair.origin}, profile ${profile}`;
      if (key === 'jobs') {
        into.jobs = readJobList(pair.value, origin);
      } else if (key === 'bulk.approval') {
        readPolicies(pair.value, into.approval);
      } else if (known !== undefined) {
        const value: unknown = isScalar(pair.value) ? pair.value.value : (pair.value as Node | null)?.toJSON();
        // `name:` with nothing after it is the same as leaving it out.
        if (value !== null && value !== undefined) into.values.push({ key: known, value, origin });
      } else if (key === 'profiles' && profile === undefined) {
        readProfiles(pair.value);
      } else if (fileKeys.some((each) => each.startsWith(`${key}.`))) {
        readMap(pair.value, key, into, profile);
      } else {
        problems.push(unknownKey(key, origin));
      }
    }
  }

  function readPolicies(node: unknown, into: WrittenPolicy[]): void {
    for (const { word, value, origin } of pairsOf(node, '"bulk.approval"')) {
      const entries = isMap(value) ? entriesOf(value) : undefined;
      // Elsewhere a name with nothing after the colon counts as left out. Here that would silently remove a safeguard.
      if (isMap(value) && entries?.size === value.items.length) into.push({ subject: word, origin, entries });
      else {
        const advice = 'Write its thresholds below it, such as "net: 500", or {} if it always needs approval.';
        problems.push(
          new UsageError(`${origin}: "bulk.approval.${word}" must hold settings as "name: value"`, { advice }),
        );
      }
    }
  }

  function readProfiles(node: unknown): void {
    if (isScalar(node) && typeof node.value === 'string') {
      profilesFolder = node.value;
      return;
    }
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
    const jobs: WrittenJob[] = [];
    for (const item of node.items) {
      const at = `${name}:${lineOf(item)}`;
      if (isMap(item)) jobs.push({ origin: at, entries: entriesOf(item) });
      else problems.push(new UsageError(`${at}: a job must hold settings as "name: value"`));
    }
    return jobs;
  }

  function entriesOf(map: YAMLMap): Map<string, Placed> {
    const entries = new Map<string, Placed>();
    for (const { key, value } of map.items) {
      const plain: unknown = (value as Node | null)?.toJS(document);
      // `timezone:` with nothing after it is the same as leaving it out.
      if (plain === null || plain === undefined) continue;
      entries.set(isScalar(key) ? String(key.value) : String(key), { value: plain, origin: `${name}:${lineOf(key)}` });
    }
    return entries;
  }

  const settings = readSettings(document.contents, ofProfile);
  return { ...settings, profiles, problems, ...(profilesFolder !== undefined && { profilesFolder }) };
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
  if (key === 'api.key') {
    return new UsageError(`${origin}: the key does not belong in the config file`, {
      advice: 'Set ADMIN_MIRROR_API_KEY, or write the key into a file of its own and name it in api.key_file.',
    });
  }
  // A word without a dot is a misspelt section (`apis:`) or a setting outside of its section (`base_url:`).
  const sections = [...new Set([...fileKeys.map((each) => each.split('.')[0] ?? each), 'profiles', 'jobs'])];
  const known = key.includes('.') ? [...fileKeys, 'bulk.approval'] : [...sections, ...fileKeys];
  const isNear = nearestNames(key, known).length > 0;
  const advice = isNear ? suggestion(key, known) : 'config/admin-mirror.example.yaml shows every setting.';
  return new UsageError(`${origin}: unknown setting "${key}"`, { advice });
}

/** Reads the file and those of its profiles. Returns undefined if there is no file and it is not required. */
export function readConfigFile(folder: string, name: string, required: boolean): ConfigFile | undefined {
  const advice = 'Correct --config or ADMIN_MIRROR_CONFIG, or leave it out to use config/admin-mirror.yaml.';
  const found = readTrusted(folder, name, `the config file ${name}`, advice);
  if (found instanceof UsageError) {
    const { code } = (found.cause as NodeJS.ErrnoException | undefined) ?? {};
    return !required && code === 'ENOENT' ? undefined : refused(found);
  }
  const { bytes } = found;
  const file = { ...parseConfigFile(bytes.toString('utf8'), name), bytes };
  return file.profilesFolder === undefined ? file : withFolder(file, folder, file.profilesFolder);
}

function readTrusted(folder: string, name: string, what: string, advice: string): ReadFile | UsageError {
  try {
    const file = readTrustedFile(resolve(folder, name), what);
    return notUtf8(file.bytes, name) ?? file;
  } catch (error) {
    if (error instanceof UsageError) return error;
    return new UsageError(`${what} cannot be read: ${fileReason(error)}`, { advice, cause: error });
  }
}

const profileFile = /^(.+)\.ya?ml$/;

/** Returns the file with the profiles of the folder: each file there has the name and the settings of one. */
function withFolder(file: ConfigFile, folder: string, profilesFolder: string): ConfigFile {
  const problems = [...file.problems];
  const profiles: FileProfile[] = [];
  const advice = 'The setting "profiles" holds the profiles, or names a folder with a file NAME.yaml for each.';
  let entries: readonly string[] = [];
  try {
    entries = readdirSync(resolve(folder, profilesFolder));
  } catch (error) {
    problems.push(new UsageError(`the profiles in ${profilesFolder} cannot be read: ${fileReason(error)}`, { advice }));
  }
  for (const entry of entries) {
    const name = profileFile.exec(entry)?.[1];
    // Hidden files come from editors and version control.
    if (name === undefined || name.startsWith('.')) continue;
    const origin = join(profilesFolder, entry);
    const found = readTrusted(folder, origin, `the file ${origin} of a profile`, 'Make it readable, or remove it.');
    const wrongName = nameProblem(name, profiles);
    if (wrongName !== undefined) problems.push(new UsageError(`${origin}: the profile "${name}" ${wrongName}`));
    const text = found instanceof UsageError ? '' : found.bytes.toString('utf8');
    const own = found instanceof UsageError ? refused(found) : parseConfigFile(text, origin, name);
    if (wrongName === undefined) profiles.push({ name, ...own, origin, text });
  }
  return { ...file, profiles: profiles.sort((a, b) => (a.name < b.name ? -1 : 1)), problems };
}

/** Returns the config file for safekeeping as one file, which contains the profile's own file. */
export function wholeConfig(file: ConfigFile, profile: FileProfile | undefined): Buffer {
  const { bytes = Buffer.of(), profilesFolder } = file;
  if (profilesFolder === undefined) return bytes;
  const document = parseDocument(bytes.toString('utf8'));
  const own: Record<string, unknown> = profile === undefined ? {} : { [profile.name]: parse(profile.text ?? '') };
  document.set('profiles', own);
  return Buffer.from(document.toString({ lineWidth: 0 }));
}
