/** The input of `init`: from flags and the environment, or from prompts. */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { CliContext } from '../context.ts';
import { readInput } from '../flag-values.ts';
import { errorText } from '../output.ts';
import { onTerminal } from '../prompts.ts';
import { FileError, OperatorError, UsageError } from '../../model/errors.ts';
import { explainFileError, makeFolder, readRegularFile } from '../../model/files.ts';
import type { Secret } from '../../model/secret.ts';
import { harmless } from '../../model/text.ts';
import { profileVariable } from '../../settings/profiles.ts';
import { typedKey } from '../../settings/server.ts';
import { checkedAddress, credentialsWord, valueOf } from '../../settings/settings.ts';
import { settingOf } from '../../settings/table.ts';

export type Questions = Awaited<ReturnType<typeof openQuestions>>;

export async function openQuestions(context: CliContext) {
  const { confirm, password, select, text } = await import('@clack/prompts');
  return {
    address: async (initial: string | undefined, insecureHttp: boolean): Promise<string> => {
      const message = 'Where is the server? Its address, without /api/v1';
      const validate = (given = '') => problemOf(() => checkedAddress(given, insecureHttp));
      const start =
        initial === undefined ? { placeholder: 'https://panel.example.com' } : { initialValue: harmless(initial) };
      return checkedAddress(
        await onTerminal(context, (on) => text({ ...on, message, validate, ...start })),
        insecureHttp,
      );
    },
    keySource: (initial: KeySource['kind']) =>
      onTerminal(context, (on) =>
        select<KeySource['kind']>({
          ...on,
          message: 'Where does the key come from?',
          initialValue: initial,
          options: [
            { value: 'file', label: 'a file', hint: 'written now; only you can read it' },
            { value: 'environment', label: 'a variable', hint: 'you set it where the commands run' },
            { value: 'credential', label: 'a credential of systemd', hint: 'LoadCredential= of the service' },
          ],
        }),
      ),
    /** Asks for a line of text, which must not be empty. */
    words: (message: string, initial: string) =>
      onTerminal(context, (on) =>
        text({
          ...on,
          message,
          initialValue: initial,
          validate: (given = '') => (given.trim() === '' ? 'It must not be empty.' : undefined),
        }),
      ),
    /** Asks for the key, which is not shown while it is typed. */
    key: async (message: string): Promise<Secret> => {
      const validate = (given = '') => problemOf(() => typedKey(given));
      return typedKey(await onTerminal(context, (on) => password({ ...on, message, validate })));
    },
    yes: (message: string, initial: boolean) =>
      onTerminal(context, (on) => confirm({ ...on, message, initialValue: initial })),
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

type KeySource =
  | { readonly kind: 'environment' }
  /** `file` is written to the config file as it is: relative to the working folder, or absolute. */
  | { readonly kind: 'file'; readonly file: string }
  | { readonly kind: 'credential'; readonly name: string };

/** Returns the value of `api.key_file`; null if there is none. */
export function keyFileOf(source: KeySource): string | null {
  if (source.kind === 'environment') return null;
  return source.kind === 'file' ? source.file : `${credentialsWord}/${source.name}`;
}

/** Returns the name of the variable that holds the key itself. */
export function keyVariable(profile: string | undefined): string {
  return profile === undefined ? 'ADMIN_MIRROR_API_KEY' : profileVariable(settingOf('api.key'), profile);
}

/** Reads the key from the file; undefined if the file does not exist. Throws a FileError or a UsageError. */
function keyIn(folder: string, file: string): Secret | undefined {
  const path = resolve(folder, file);
  if (!existsSync(path)) return undefined;
  return typedKey(keyFileText(path), `the key file ${file}`);
}

function keyFileText(path: string): string {
  try {
    return readRegularFile(path).bytes.toString('utf8');
  } catch (error) {
    throw explainFileError(error, 'read the key file', path) ?? error;
  }
}

/** Writes the key to a new file that only its owner can read. Returns the function that undoes it. Throws a FileError. */
export function writeKey(folder: string, file: string, key: Secret): () => void {
  const path = resolve(folder, file);
  try {
    makeFolder(dirname(path));
    writeFileSync(path, `${key.reveal()}\n`, { flag: 'wx', mode: 0o600, flush: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
      throw new FileError(`${path} already exists and was left as it is`, { advice: 'Name another file.' });
    }
    rmSync(path, { force: true });
    throw explainFileError(error, 'write the key file', path) ?? error;
  }
  return () => rmSync(path, { force: true });
}

export interface InitFlags {
  readonly keyFile?: string;
  readonly keyEnv?: true;
  readonly keyCredential?: string;
  readonly yes?: true;
  readonly replace?: true;
  readonly try?: boolean;
  readonly sync?: boolean;
}

export interface InitInput {
  readonly baseUrl: string;
  readonly source: KeySource;
  /** undefined if it is not known here, so that it cannot be tried. */
  readonly key: Secret | undefined;
  /** Whether the key file must be written. */
  readonly isNew: boolean;
}

interface Input {
  readonly context: CliContext;
  readonly flags: InitFlags;
  readonly profile: string | undefined;
}

function sourceOf({ keyFile, keyEnv, keyCredential }: InitFlags): KeySource | undefined {
  if (keyFile !== undefined) return { kind: 'file', file: keyFile };
  if (keyCredential !== undefined) return { kind: 'credential', name: keyCredential };
  return keyEnv === true ? { kind: 'environment' } : undefined;
}

/** Reads the key from its variable, in the environment or `.env`; undefined if that is not set. */
function keyInEnvironment({ context, profile }: Input): Secret | undefined {
  if (profile === undefined) return context.reading().rest.api.key;
  const text = context.environment[keyVariable(profile)]?.trim() ?? '';
  return text === '' ? undefined : typedKey(text, keyVariable(profile));
}

/** Reads the input without prompts. Throws a UsageError that says what is missing. */
export async function givenInput(input: Input): Promise<InitInput> {
  const { context, flags, profile } = input;
  const { baseUrl: given, insecureHttp } = addressGiven(input);
  if (given === undefined) {
    throw new UsageError('no base address was given', { advice: 'Add --base-url.' });
  }
  const baseUrl = checkedAddress(given, insecureHttp);
  const there = keyInEnvironment(input);
  const source = sourceOf(flags) ?? (there === undefined ? undefined : { kind: 'environment' as const });
  if (source === undefined) {
    const advice = `Add --key-file FILE or --key-credential NAME, or set ${keyVariable(profile)}.`;
    throw new UsageError('no key was given', { advice });
  }
  const found = source.kind === 'file' ? keyIn(context.folder, source.file) : undefined;
  if (found !== undefined) return { baseUrl, source, key: found, isNew: false };
  if (source.kind !== 'file') return { baseUrl, source, key: there, isNew: false };
  const typed = context.stdin().isTTY ? '' : (await readInput(context.stdin())).trim();
  const key = typed === '' ? there : typedKey(typed);
  if (key !== undefined) return { baseUrl, source, key, isNew: true };
  throw new UsageError(`there is no file ${source.file}, and no key to write into it`, {
    advice: `Give the key on standard input, or set ${keyVariable(profile)}, or name a file that holds it.`,
  });
}

function addressGiven({ context, profile }: Input): { baseUrl: string | undefined; insecureHttp: boolean } {
  const { rest } = context.reading();
  const { value, origin } = valueOf(context.reading(), 'api.base_url');
  // A variable may be meant for another profile.
  const counts = profile === undefined || origin.startsWith('flag');
  return { baseUrl: counts && value !== null ? String(value) : undefined, insecureHttp: rest.api.insecureHttp };
}

/** Asks for the input. Offers the previous answers as defaults. */
export async function promptedInput(
  input: Input,
  questions: Questions,
  before: InitInput | undefined,
): Promise<InitInput> {
  const { context, flags, profile } = input;
  const { baseUrl: given, insecureHttp } = addressGiven(input);
  const baseUrl = await questions.address(before?.baseUrl ?? given, insecureHttp);
  // After a failed try, ask for everything again.
  const flagged = before === undefined ? sourceOf(flags) : undefined;
  const kind = flagged?.kind ?? (await questions.keySource(before?.source.kind ?? 'file'));
  const source = flagged ?? (await promptedSource(kind, questions, profile, before?.source));
  if (source.kind === 'file') {
    const found = keyIn(context.folder, source.file);
    if (found !== undefined) return { baseUrl, source, key: found, isNew: false };
    const key = await questions.key(`The key, to be written to ${source.file}`);
    return { baseUrl, source, key, isNew: true };
  }
  const there = source.kind === 'environment' && before === undefined ? keyInEnvironment(input) : undefined;
  const key = there ?? (await questions.key('The key, to try it now; it is not kept'));
  return { baseUrl, source, key, isNew: false };
}

async function promptedSource(
  kind: KeySource['kind'],
  questions: Questions,
  profile: string | undefined,
  before: KeySource | undefined,
): Promise<KeySource> {
  if (kind === 'environment') return { kind };
  const name = profile === undefined ? 'api-key' : `${profile}-key`;
  if (kind === 'file') {
    const initial = before?.kind === 'file' ? before.file : `secrets/${name}`;
    return { kind, file: (await questions.words('Which file?', initial)).trim() };
  }
  const initial = before?.kind === 'credential' ? before.name : name;
  return { kind, name: (await questions.words('What is the credential called?', initial)).trim() };
}
