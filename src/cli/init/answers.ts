/** What `init` is to set up: from flags and the environment, or by asking. */
import { UsageError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';
import { checkedAddress } from '../../settings/base-address.ts';
import { typedKey } from '../../settings/server.ts';
import type { CliContext } from '../context.ts';
import { readInput } from '../input.ts';
import { keyIn, type KeySource, keyVariable } from './key-source.ts';
import type { Questions } from './questions.ts';

export interface InitFlags {
  readonly keyFile?: string;
  readonly keyEnv?: true;
  readonly keyCredential?: string;
  readonly yes?: true;
  readonly replace?: true;
  readonly try?: boolean;
  readonly sync?: boolean;
}

export interface Answers {
  readonly baseUrl: string;
  readonly source: KeySource;
  /** undefined: it is not known here, and cannot be tried. */
  readonly key: Secret | undefined;
  /** The key file is to be written. */
  readonly isNew: boolean;
}

interface Asked {
  readonly context: CliContext;
  readonly flags: InitFlags;
  readonly profile: string | undefined;
}

function sourceOf({ keyFile, keyEnv, keyCredential }: InitFlags): KeySource | undefined {
  if (keyFile !== undefined) return { kind: 'file', file: keyFile };
  if (keyCredential !== undefined) return { kind: 'credential', name: keyCredential };
  return keyEnv === true ? { kind: 'environment' } : undefined;
}

/** The key of the variable, in the environment or `.env`; undefined where it is not set. */
function keyInEnvironment({ context, profile }: Asked): Secret | undefined {
  if (profile === undefined) return context.reading().rest.api.key;
  const text = context.environment[keyVariable(profile)]?.trim() ?? '';
  return text === '' ? undefined : typedKey(text);
}

/** Without a question: everything must have been given. Throws a UsageError that says what is missing. */
export async function givenAnswers(asked: Asked): Promise<Answers> {
  const { context, flags, profile } = asked;
  const { baseUrl: given, insecureHttp } = addressGiven(asked);
  if (given === undefined) {
    throw new UsageError('no base address was given, and nobody is asked', { advice: 'Add --base-url.' });
  }
  const baseUrl = checkedAddress(given, insecureHttp);
  const there = keyInEnvironment(asked);
  const source = sourceOf(flags) ?? (there === undefined ? undefined : { kind: 'environment' as const });
  if (source === undefined) {
    const advice = `Add --key-file FILE or --key-credential NAME, or set ${keyVariable(profile)}.`;
    throw new UsageError('no key was given, and nobody is asked', { advice });
  }
  const found = source.kind === 'file' ? keyIn(context.folder, source.file) : undefined;
  if (found !== undefined) return { baseUrl, source, key: found, isNew: false };
  if (source.kind !== 'file') return { baseUrl, source, key: there, isNew: false };
  const typed = context.stdin.isTTY ? '' : (await readInput(context.stdin)).trim();
  const key = typed === '' ? there : typedKey(typed);
  if (key !== undefined) return { baseUrl, source, key, isNew: true };
  throw new UsageError(`there is no file ${source.file}, and no key to write into it`, {
    advice: `Give the key on standard input, or set ${keyVariable(profile)}, or name a file that holds it.`,
  });
}

/** The address of a flag or a variable, where there is one. */
export function addressGiven({ context, profile }: Asked): { baseUrl: string | undefined; insecureHttp: boolean } {
  const { readings, rest } = context.reading();
  const { value, origin } = readings.find(({ setting }) => setting.key === 'api.base_url') ?? {
    value: null,
    origin: '',
  };
  // Of a variable it is not known that it means this profile.
  const counts = profile === undefined || origin.startsWith('flag');
  return { baseUrl: counts && value !== null ? String(value) : undefined, insecureHttp: rest.api.insecureHttp };
}

/** By asking; what was given, or answered before, is offered. */
export async function askedAnswers(asked: Asked, questions: Questions, before: Answers | undefined): Promise<Answers> {
  const { context, flags, profile } = asked;
  const { baseUrl: given, insecureHttp } = addressGiven(asked);
  const baseUrl = await questions.address(before?.baseUrl ?? given, insecureHttp);
  // What did not work is asked for again.
  const flagged = before === undefined ? sourceOf(flags) : undefined;
  const kind = flagged?.kind ?? (await questions.keySource(before?.source.kind ?? 'file'));
  const source = flagged ?? (await sourceAsked(kind, questions, profile, before?.source));
  if (source.kind === 'file') {
    const found = keyIn(context.folder, source.file);
    if (found !== undefined) return { baseUrl, source, key: found, isNew: false };
    const key = await questions.key(`The key, to be written to ${source.file}`);
    return { baseUrl, source, key, isNew: true };
  }
  const there = source.kind === 'environment' && before === undefined ? keyInEnvironment(asked) : undefined;
  const key = there ?? (await questions.key('The key, to try it now; it is not kept'));
  return { baseUrl, source, key, isNew: false };
}

async function sourceAsked(
  kind: KeySource['kind'],
  questions: Questions,
  profile: string | undefined,
  before: KeySource | undefined,
): Promise<KeySource> {
  const name = profile === undefined ? 'api-key' : `${profile}-key`;
  switch (kind) {
    case 'environment':
      return { kind };
    case 'file': {
      const initial = before?.kind === 'file' ? before.file : `secrets/${name}`;
      return { kind, file: (await questions.words('Which file?', initial)).trim() };
    }
    case 'credential': {
      const initial = before?.kind === 'credential' ? before.name : name;
      return { kind, name: (await questions.words('What is the credential called?', initial)).trim() };
    }
    default:
      return kind satisfies never;
  }
}
