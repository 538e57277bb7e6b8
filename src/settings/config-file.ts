/** The YAML config file: its values by setting key and its jobs, each with its line, and every problem with where it stands. */
import { readFileSync } from 'node:fs';
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument, type YAMLMap } from 'yaml';
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
import type { Placed, WrittenJob } from './jobs.ts';
import { allSettings, type SettingKey } from './table.ts';

export interface FileValue {
  readonly key: SettingKey;
  readonly value: unknown;
  /** `config/admin-mirror.yaml:12` */
  readonly origin: string;
}

export interface ConfigFile {
  readonly values: readonly FileValue[];
  /** As they stand there, unchecked. */
  readonly jobs: readonly WrittenJob[];
  readonly problems: readonly UsageError[];
}

const fileKeys = allSettings.filter((each) => each.inFile).map((each) => each.key);

/** Reads the text of a config file; `name` is what the errors call it. */
export function parseConfigFile(text: string, name: string): ConfigFile {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const values: FileValue[] = [];
  const problems = document.errors.map(
    (error) =>
      new UsageError(`${name}:${lines.linePos(error.pos[0]).line}: ${error.message}`, {
        advice: 'The config file must be YAML; config/admin-mirror.yaml shows every setting.',
      }),
  );
  const jobs: WrittenJob[] = [];
  if (problems.length > 0) return { values, jobs, problems };

  const lineOf = (node: unknown) => lines.linePos((node as Node | null)?.range?.[0] ?? 0).line;

  function readMap(node: unknown, prefix: string): void {
    if (node === null || (isScalar(node) && node.value === null)) return;
    if (!isMap(node)) {
      const what = prefix === '' ? 'the file' : `"${prefix}"`;
      problems.push(new UsageError(`${name}:${lineOf(node)}: ${what} must hold settings as "name: value"`));
      return;
    }
    for (const pair of node.items) {
      const word = isScalar(pair.key) ? String(pair.key.value) : String(pair.key);
      const key = prefix === '' ? word : `${prefix}.${word}`;
      const known = fileKeys.find((each) => each === key);
      const origin = `${name}:${lineOf(pair.key)}`;
      if (key === 'jobs') {
        readJobList(pair.value, origin);
      } else if (known !== undefined) {
        const value: unknown = isScalar(pair.value) ? pair.value.value : (pair.value as Node | null)?.toJSON();
        // `name:` with nothing after it is the same as leaving it out.
        if (value !== null && value !== undefined) values.push({ key: known, value, origin });
      } else if (fileKeys.some((each) => each.startsWith(`${key}.`))) {
        readMap(pair.value, key);
      } else {
        problems.push(unknownKey(key, origin));
      }
    }
  }

  function readJobList(node: unknown, origin: string): void {
    if (node === null || (isScalar(node) && node.value === null)) return;
    if (!isSeq(node)) {
      const advice = 'Begin each job with "- name: …".';
      problems.push(new UsageError(`${origin}: "jobs" must be a list`, { advice }));
      return;
    }
    for (const item of node.items) {
      const at = `${name}:${lineOf(item)}`;
      if (isMap(item)) jobs.push({ origin: at, entries: entriesOf(item) });
      else problems.push(new UsageError(`${at}: a job must hold settings as "name: value"`));
    }
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

  readMap(document.contents, '');
  return { values, jobs, problems };
}

function unknownKey(key: string, origin: string): UsageError {
  if (key === 'api.key') {
    return new UsageError(`${origin}: the key does not belong in the config file`, {
      advice: 'Set ADMIN_MIRROR_API_KEY, or write the key into a file of its own and name it in api.key_file.',
    });
  }
  // A word on its own is a section misspelt (`apis:`) or a setting without its section (`base_url:`).
  const sections = [...new Set(fileKeys.map((each) => each.split('.')[0] ?? each)), 'jobs'];
  const known = key.includes('.') ? fileKeys : [...sections, ...fileKeys];
  return new UsageError(`${origin}: unknown setting "${key}"`, { advice: suggestion(key, known) });
}

/** Reads the file; `undefined` where there is none and it need not be there. */
export function readConfigFile(path: string, name: string, required: boolean): ConfigFile | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    if (code === 'ENOENT' && !required) return undefined;
    const why = code === 'ENOENT' ? 'it does not exist' : code;
    return {
      values: [],
      jobs: [],
      problems: [
        new UsageError(`the config file ${name} cannot be read: ${why}`, {
          advice: 'Correct --config or ADMIN_MIRROR_CONFIG, or leave it out to use config/admin-mirror.yaml.',
        }),
      ],
    };
  }
  return parseConfigFile(text, name);
}
