/** `init`: asks for the server and the key, tries them, measures the server and writes the config file. */
import { type Command, Option } from 'commander';
import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { type CliContext, sourcesOf } from './context.ts';
import { type Check, checkLines } from './doctor/check.ts';
import { errorText, pasteable, printJson, printNote, printResult, printWarning } from './output.ts';
import { canAsk } from './prompts.ts';
import { UsageError } from '../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile } from '../model/files.ts';
import { resourceNames } from '../model/resources.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { withServer } from '../settings/config-edit.ts';
import { type ConfigFile, parseConfigFile } from '../settings/config-file.ts';
import { profileName } from '../settings/kinds.ts';
import { networkOf } from '../settings/server.ts';
import {
  defaultConfigFile,
  readSettings,
  type Settings,
  settingsFrom,
  type SettingsReading,
  valueOf,
} from '../settings/settings.ts';
import { tryServer } from './doctor/server-checks.ts';
import {
  type InitInput,
  promptedInput,
  givenInput,
  type InitFlags,
  keyFileOf,
  keyVariable,
  openQuestions,
  type Questions,
  writeKey,
} from './init/input.ts';
import { sync } from './sync.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';

const schema = fileURLToPath(new URL('../../config/admin-mirror.schema.json', import.meta.url));

/** What a new config file begins with. An editor finds the settings by its first line. */
function newFile(path: string): string {
  return `# yaml-language-server: $schema=${relative(dirname(path), schema)}
# A flag or an environment variable outranks this file. \`admin-mirror config\` shows what is in force and where it came from.
# docs/settings.md lists every setting, config/admin-mirror.example.yaml explains each.

api:
  # base_url: https://panel.example.com
  # key_file: secrets/api-key

store:
  mirror: data/mirror.db
  journal: data/journal.db
`;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('init')
    .description(
      'Ask for the address of the server and its key, try them, measure what the server can do, and write the config ' +
        'file; then offer the first sync. With --profile, add that profile to the file.\n' +
        'Without a terminal, give --yes, --base-url and the source of the key. Writes nothing if the server cannot be used.',
    )
    .addOption(keyOption('--key-file <file>', 'the file with the key; created if it does not exist'))
    .addOption(keyOption('--key-env', 'the key stays in the variable ADMIN_MIRROR_API_KEY'))
    .addOption(keyOption('--key-credential <name>', 'the key is a credential that systemd passes to the service'))
    .option('--yes', 'do not ask; read the key for a new file from standard input')
    .option('--replace', 'replace another server that the config file names')
    .option('--no-try', 'write the file without trying the server')
    .option('--sync', 'run the first sync afterwards')
    .option('--no-sync', 'do not offer the first sync')
    .action((flags: InitFlags) => init(context, flags));
}

const keyFlags = ['keyFile', 'keyEnv', 'keyCredential'];

function keyOption(flag: string, meaning: string): Option {
  const option = new Option(flag, meaning);
  return option.conflicts(keyFlags.filter((each) => each !== option.attributeName()));
}

interface Target {
  readonly profile: string | undefined;
  /** The name of the file, as in the settings. */
  readonly config: string;
  readonly path: string;
  readonly text: string;
  /** The server that this part of the file already names. */
  readonly other: string | undefined;
  /** The server that the file already names outside of any profile. */
  readonly common: string | undefined;
}

async function init(context: CliContext, flags: InitFlags): Promise<void> {
  const target = targetOf(context);
  const { profile } = target;
  const questions = await questionsOf(context, flags);
  const given = { context, flags, profile };
  let input: InitInput | undefined;
  let checks: readonly Check[] = [];
  for (;;) {
    input = questions === undefined ? await givenInput(given) : await promptedInput(given, questions, input);
    checks = await trial(context, flags, input);
    const failed = checks.find((each) => each.state === 'fail');
    if (failed === undefined) break;
    const again = questions !== undefined && (await questions.yes('That did not work. Try again?', true));
    if (again) continue;
    printNote(context, 'Nothing was written.');
    if (context.json()) printJson(context, reportOf(target, input, checks, false));
    context.exit(failed.exitCode ?? 2);
    return;
  }
  await allowReplacing(target, input, flags, questions);
  const settings = await write(context, target, input);
  printResult(context, reportOf(target, input, checks, true), endLines(target, input));
  const syncsNow = flags.sync ?? (await questions?.yes('Read everything from the server now?', true)) ?? false;
  if (!syncsNow) {
    const next = pasteable({ reading: () => readingNow(context) }, 'Next: admin-mirror sync, then admin-mirror status');
    if (!context.quiet()) context.stderr.write(`${next}\n`);
    return;
  }
  if (settings === undefined) {
    throw new UsageError('the first sync was not started, because of a problem with other settings', {
      advice: 'Run `admin-mirror doctor`, then `admin-mirror sync`.',
    });
  }
  await sync({ ...context, settings: () => settings, json: () => false }, resourceNames, {});
}

function targetOf(context: CliContext): Target {
  const reading = context.reading();
  const named = valueOf(reading, 'profile');
  // A profile in the config file is only the default for other commands, not the one to add.
  const profile = /^(flag|environment|\.env) /.test(named.origin) ? String(named.value) : undefined;
  if (profile !== undefined && !profileName.test(profile)) {
    throw new UsageError(`a profile cannot be called "${profile}"`, {
      advice: 'Use up to 32 letters, digits, - and _.',
    });
  }
  const config = String(valueOf(reading, 'config').value ?? defaultConfigFile);
  const path = resolve(context.folder, config);
  const text = existsSync(path) ? textOf(path) : newFile(path);
  const file = parsed(text, config);
  const own = profile === undefined ? file : file.profiles.find(({ name }) => name === profile);
  return { profile, config, path, text, other: addressIn(own), common: addressIn(file) };
}

function parsed(text: string, name: string): ConfigFile {
  const file = parseConfigFile(text, name);
  const [problem] = file.problems;
  if (problem !== undefined) throw problem;
  return file;
}

function textOf(file: string): string {
  try {
    return readRegularFile(file).bytes.toString('utf8');
  } catch (error) {
    throw explainFileError(error, 'read the config file', file) ?? error;
  }
}

function addressIn(file: Pick<ConfigFile, 'values'> | undefined): string | undefined {
  const address = file?.values.get('api.base_url')?.value;
  return typeof address === 'string' ? address : undefined;
}

/** Returns undefined with --yes. Throws a UsageError if there is no terminal. */
async function questionsOf(context: CliContext, flags: InitFlags): Promise<Questions | undefined> {
  if (flags.yes === true) return undefined;
  if (!canAsk(context)) {
    throw new UsageError('init asks for the server and its key, but there is no terminal', {
      advice: 'Add --yes, --base-url URL and one of --key-file FILE, --key-env, --key-credential NAME.',
    });
  }
  return openQuestions(context);
}

async function trial(context: CliContext, flags: InitFlags, { baseUrl, key }: InitInput): Promise<readonly Check[]> {
  if (key !== undefined) context.keepSecret(key.reveal());
  if (flags.try === false) return [];
  if (key === undefined) {
    throw new UsageError('the key is not known here, so the server cannot be tried', {
      advice: 'Set ADMIN_MIRROR_API_KEY, or write the config file without trying the server: --no-try.',
    });
  }
  printNote(context, `Trying ${baseUrl} …`);
  const { rest } = context.reading();
  const { checks } = await tryServer(context, rest, { baseUrl, key, network: networkOf(rest) });
  for (const line of checkLines(context, checks, context.stderr)) printNote(context, line);
  return checks;
}

async function allowReplacing(
  { config, other, profile }: Target,
  { baseUrl }: InitInput,
  flags: InitFlags,
  questions: Questions | undefined,
): Promise<void> {
  if (other === undefined || withoutEndSlashes(other) === baseUrl || flags.replace === true) return;
  const where = profile === undefined ? config : `the profile ${profile} of ${config}`;
  if (questions !== undefined) {
    if (await questions.yes(`${where} names the server ${other}. Replace it with ${baseUrl}?`, false)) return;
    throw new UsageError(`${config} was left as it is; nothing was written`);
  }
  throw new UsageError(`${where} names another server, ${other}; nothing was written`, {
    advice: 'Add --replace, add it as one of several with --profile NAME, or name another file with --config.',
  });
}

/** Writes key and config, both or neither. Returns the settings as the next command will read them, if they are valid. */
async function write(context: CliContext, target: Target, input: InitInput): Promise<Settings | undefined> {
  const { baseUrl, source, key, isNew } = input;
  const { insecureHttp } = context.reading().rest.api;
  const { profile, path } = target;
  const text = withServer(target.text, { profile, baseUrl, keyFile: keyFileOf(source), insecureHttp });
  const undo =
    isNew && source.kind === 'file' && key !== undefined ? writeKey(context.folder, source.file, key) : () => {};
  try {
    makeFolder(dirname(path));
    // A service of another user may have to read it. Others must not write to it, or it would be refused.
    await writeDurableFile(path, Readable.from([Buffer.from(text)]), context.signal, 0o644);
  } catch (error) {
    undo();
    throw error;
  }
  return settingsNow(context, input);
}

/** Reads the settings as the next command will: the address is in the file now and needs no flag. */
function readingNow(context: CliContext): SettingsReading {
  const sources = sourcesOf(context, context.flags());
  return readSettings({ ...sources, flags: sources.flags.filter((each) => each.key !== 'api.base_url') });
}

function settingsNow(context: CliContext, { baseUrl, key }: InitInput): Settings | undefined {
  const reading = readingNow(context);
  for (const problem of reading.problems) printWarning(context, errorText(problem));
  if (reading.settings === undefined) return undefined;
  const { value, origin } = valueOf(reading, 'api.base_url');
  const settings = settingsFrom(reading);
  if (settings.api.baseUrl !== baseUrl) {
    printWarning(
      context,
      `commands use the server ${String(value)} (${origin}), which overrides the file just written`,
    );
    return undefined;
  }
  return { ...settings, api: { ...settings.api, key: key ?? settings.api.key } };
}

function reportOf(
  { config, profile }: Target,
  { baseUrl, source }: InitInput,
  checks: readonly Check[],
  done: boolean,
) {
  return {
    written: done,
    config,
    profile: profile ?? null,
    base_url: baseUrl,
    key_file: keyFileOf(source),
    checks: checks.map(({ name, state, finding, advice }) => ({ name, state, finding, advice: advice ?? null })),
  };
}

function endLines({ config, profile, common }: Target, { source, isNew }: InitInput): string[] {
  const isOther = profile !== undefined && common !== undefined;
  return [
    `written: ${config}`,
    ...(isOther ? [`without --profile, the server is ${common} as before`] : []),
    keyLine(source, profile, isNew),
  ];
}

function keyLine(source: InitInput['source'], profile: string | undefined, isNew: boolean): string {
  if (source.kind === 'environment') return `the key is not stored: set ${keyVariable(profile)} where the commands run`;
  if (source.kind === 'credential') return `the service needs LoadCredential=${source.name}:/path/to/the/key`;
  return isNew ? `written: ${source.file}; only its owner can read it` : `the key is read from ${source.file}`;
}
