/** `init`: asks for the server and the key, tries them, measures the server and writes the config file. */
import { type Command, InvalidArgumentError } from 'commander';
import { OperatorError, suggestion, UsageError } from '../model/errors.ts';
import { resourceNames, resources } from '../model/resources.ts';
import { harmless, withoutEndSlashes, wordsIn } from '../model/text.ts';
import { networkOf, typedKey } from '../settings/server.ts';
import { checkedAddress, readSettings, type Settings, type SettingsReading, valueOf } from '../settings/settings.ts';
import type { Finding } from '../setup/check.ts';
import {
  type InitInput,
  keyIn,
  keyVariable,
  relatedWith,
  type Target,
  targetOf,
  usualRelations,
  writeServer,
} from '../setup/init.ts';
import { tryServer } from '../setup/server-checks.ts';
import { type CliContext, sourcesOf } from './context.ts';
import { findingLines } from './doctor.ts';
import { readInput } from './flag-values.ts';
import { errorText, printJson, printNote, printResult, printWarning } from './output.ts';
import { canAsk, onTerminal } from './prompts.ts';
import { sync } from './sync.ts';

interface Flags {
  readonly keyFile?: string;
  readonly yes?: true;
  readonly replace?: true;
  readonly include?: readonly string[];
  readonly sync?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('init')
    .description(
      'Ask for the address of the server and its key, try them, measure what the server can do, and write the config ' +
        'file; then offer the first sync. With --profile, add that profile to the file.\n' +
        'A key that is in ADMIN_MIRROR_API_KEY stays there, unless --key-file names a file for it.\n' +
        'Without a terminal, give --yes and --base-url. Writes nothing if the server cannot be used.',
    )
    .option('--key-file <file>', 'the file with the key; created if it does not exist')
    .option('--yes', 'do not ask; read the key for a new file from standard input')
    .option('--replace', 'replace another server that the config file names')
    .option(
      '--include <names>',
      `related records of users to mirror, separated by commas: ${usualRelations.join(',')}; or none`,
      toRelations,
    )
    .option('--sync', 'run the first sync afterwards')
    .action((flags: Flags) => init(context, flags));
}

async function init(context: CliContext, flags: Flags): Promise<void> {
  const target = targetOf(context.reading(), context.folder);
  const questions = await questionsOf(context, flags);
  const input = await inputOf(context, flags, target, questions);
  const checks = await trial(context, input);
  const failed = checks.find((each) => each.state === 'fail');
  if (failed !== undefined) {
    printNote(context, 'Nothing was written.');
    if (context.json()) printJson(context, reportOf(target, input, checks, false));
    return context.exit(failed.exitCode ?? 2);
  }
  await allowReplacing(target, input, flags, questions);
  const { rest } = context.reading();
  const include = flags.include ?? (await relationsWanted(context, questions));
  const related = include && relatedWith(rest, include);
  const { folder, signal } = context;
  await writeServer(target, input, { folder, insecureHttp: rest.api.insecureHttp, related, signal });
  const now = readingNow(context);
  const settings = settingsNow(context, now, input);
  printResult(context, reportOf(target, input, checks, true), endLines(target, input));
  if (flags.sync ?? (await questions?.yes('Read everything from the server now?', true)) ?? false) {
    if (settings !== undefined)
      return sync({ ...context, settings: () => settings, json: () => false }, resourceNames, {});
    throw new UsageError('the first sync was not started, because of a problem with other settings', {
      advice: 'Run `admin-mirror doctor`, then `admin-mirror sync`.',
    });
  }
  printNote({ ...context, reading: () => now }, 'Next: admin-mirror sync, then admin-mirror status');
}

/** Asks once: a name that is added later makes the next sync read everything again. Returns undefined if the settings say it. */
async function relationsWanted(
  context: CliContext,
  questions: Questions | undefined,
): Promise<readonly string[] | undefined> {
  if (questions === undefined || valueOf(context.reading(), 'resources').origin !== 'default') return undefined;
  const message =
    'Mirror the orders, payments and balance transactions of users, too? Reports need them; syncs take longer';
  return (await questions.yes(message, true)) ? usualRelations : undefined;
}

function toRelations(text: string): readonly string[] {
  const named = text === 'none' ? [] : wordsIn(text);
  const known = resources.users.includes;
  const wrong = named.find((name) => !known.some((each) => each === name));
  if (wrong === undefined) return named;
  throw new InvalidArgumentError(`Users have no related records "${wrong}". ${suggestion(wrong, known)}`);
}

type Questions = Awaited<ReturnType<typeof openQuestions>>;

/** Returns undefined with --yes. Throws a UsageError if there is no terminal. */
async function questionsOf(context: CliContext, flags: Flags): Promise<Questions | undefined> {
  if (flags.yes === true) return undefined;
  if (canAsk(context)) return openQuestions(context);
  throw new UsageError('init asks for the server and its key, but there is no terminal', {
    advice: 'Add --yes, --base-url URL and --key-file FILE, or set ADMIN_MIRROR_API_KEY.',
  });
}

async function openQuestions(context: CliContext) {
  const { confirm, password, text } = await import('@clack/prompts');
  return {
    address: async (initial: string | undefined, insecureHttp: boolean): Promise<string> => {
      const message = 'Where is the server? Its address, without /api/v1';
      const validate = (given = '') => problemOf(() => checkedAddress(given, insecureHttp));
      const start =
        initial === undefined ? { placeholder: 'https://panel.example.com' } : { initialValue: harmless(initial) };
      const typed = await onTerminal(context, (on) => text({ ...on, message, validate, ...start }));
      return checkedAddress(typed, insecureHttp);
    },
    file: async (initialValue: string): Promise<string> => {
      const message = 'Which file holds the key? It is written if it does not exist; only you can read it';
      const validate = (given = '') => (given.trim() === '' ? 'It must not be empty.' : undefined);
      return (await onTerminal(context, (on) => text({ ...on, message, initialValue, validate }))).trim();
    },
    /** The key is not shown while it is typed. */
    key: async (message: string) => {
      const validate = (given = '') => problemOf(() => typedKey(given));
      return typedKey(await onTerminal(context, (on) => password({ ...on, message, validate })));
    },
    yes: (message: string, initialValue: boolean) =>
      onTerminal(context, (on) => confirm({ ...on, message, initialValue })),
  };
}

function problemOf(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return errorText(error);
  }
}

/** Returns what flags, variables and answers say. Throws a UsageError that says what is missing. */
async function inputOf(
  context: CliContext,
  { keyFile }: Flags,
  { profile }: Target,
  questions: Questions | undefined,
): Promise<InitInput> {
  const { insecureHttp } = context.reading().rest.api;
  const { value, origin } = valueOf(context.reading(), 'api.base_url');
  // A variable may be meant for another profile.
  const counts = value !== null && (profile === undefined || origin.startsWith('flag'));
  const given = counts ? String(value) : undefined;
  if (questions === undefined && given === undefined) {
    throw new UsageError('no base address was given', { advice: 'Add --base-url.' });
  }
  const baseUrl = (await questions?.address(given, insecureHttp)) ?? checkedAddress(given ?? '', insecureHttp);
  const there = keyInEnvironment(context, profile);
  if (keyFile === undefined && there !== undefined) return { baseUrl, keyFile: null, key: there, isNew: false };
  const usual = `secrets/${profile === undefined ? 'api-key' : `${profile}-key`}`;
  const file = keyFile ?? (await questions?.file(usual));
  if (file === undefined) {
    const advice = `Add --key-file FILE, or set ${keyVariable(profile)}.`;
    throw new UsageError('no key was given', { advice });
  }
  const found = keyIn(context.folder, file);
  if (found !== undefined) return { baseUrl, keyFile: file, key: found, isNew: false };
  const key =
    questions === undefined
      ? ((await typedInput(context)) ?? there)
      : await questions.key(`The key, to be written to ${file}`);
  if (key !== undefined) return { baseUrl, keyFile: file, key, isNew: true };
  throw new UsageError(`there is no file ${file}, and no key to write into it`, {
    advice: `Give the key on standard input, or set ${keyVariable(profile)}, or name a file that holds it.`,
  });
}

async function typedInput(context: CliContext) {
  const typed = context.stdin().isTTY ? '' : (await readInput(context.stdin())).trim();
  return typed === '' ? undefined : typedKey(typed);
}

/** Reads the key from its variable, in the environment or `.env`; undefined if that is not set. */
function keyInEnvironment(context: CliContext, profile: string | undefined) {
  if (profile === undefined) return context.reading().rest.api.key;
  const text = context.environment[keyVariable(profile)]?.trim() ?? '';
  return text === '' ? undefined : typedKey(text, keyVariable(profile));
}

async function trial(context: CliContext, { baseUrl, key }: InitInput): Promise<readonly Finding[]> {
  context.keepSecret(key.reveal());
  printNote(context, `Trying ${baseUrl} …`);
  const { rest: settings } = context.reading();
  const { signal } = context;
  const server = { settings, baseUrl, key, network: networkOf(settings), signal };
  const { findings } = await tryServer(server, context.releases);
  for (const line of findingLines(context, findings, context.stderr)) printNote(context, line);
  return findings;
}

async function allowReplacing(
  { config, other, profile }: Target,
  { baseUrl }: InitInput,
  flags: Flags,
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

/** Reads the settings as the next command will: the address is in the file now and needs no flag. */
function readingNow(context: CliContext): SettingsReading {
  const sources = sourcesOf(context, context.flags());
  return readSettings({ ...sources, flags: sources.flags.filter((each) => each.key !== 'api.base_url') });
}

/** Returns the settings as the next command will read them; undefined if they are wrong or name another server, and says so. */
function settingsNow(context: CliContext, reading: SettingsReading, { baseUrl }: InitInput): Settings | undefined {
  for (const problem of reading.problems) printWarning(context, errorText(problem));
  const { settings } = reading;
  if (settings === undefined || settings.api.baseUrl === baseUrl) return settings;
  const { value, origin } = valueOf(reading, 'api.base_url');
  const why = `commands use the server ${String(value)} (${origin}), which overrides the file just written`;
  printWarning(context, why);
  return undefined;
}

function reportOf(
  { config, profile }: Target,
  { baseUrl, keyFile }: InitInput,
  checks: readonly Finding[],
  written: boolean,
) {
  return {
    written,
    config,
    profile: profile ?? null,
    base_url: baseUrl,
    key_file: keyFile,
    checks: checks.map(({ name, state, finding, advice }) => ({ name, state, finding, advice: advice ?? null })),
  };
}

function endLines({ config, profile, common }: Target, { keyFile, isNew }: InitInput): string[] {
  const isOther = profile !== undefined && common !== undefined;
  const fromFile = isNew ? `written: ${keyFile}; only its owner can read it` : `the key is read from ${keyFile}`;
  return [
    `written: ${config}`,
    ...(isOther ? [`without --profile, the server is ${common} as before`] : []),
    keyFile === null ? `the key is not stored: set ${keyVariable(profile)} where the commands run` : fromFile,
  ];
}
