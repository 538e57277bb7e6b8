/** What `init` asks a person, one question after the other. Each throws an InterruptedError where it is broken off. */
import { InterruptedError, OperatorError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';
import { checkedAddress } from '../../settings/base-address.ts';
import { typedKey } from '../../settings/server.ts';
import { harmless } from '../../model/terminal-text.ts';
import type { CliContext } from '../context.ts';
import { onTerminal, type Terminal } from '../terminal.ts';
import type { KeySource } from './key-source.ts';

export interface Questions {
  address(initial: string | undefined, insecureHttp: boolean): Promise<string>;
  keySource(initial: KeySource['kind']): Promise<KeySource['kind']>;
  /** A line of text that may not be empty. */
  words(message: string, initial: string): Promise<string>;
  /** Not shown while it is typed. */
  key(message: string): Promise<Secret>;
  yes(message: string, initial: boolean): Promise<boolean>;
}

export async function openQuestions(context: CliContext): Promise<Questions> {
  const { confirm, isCancel, password, select, text } = await import('@clack/prompts');
  async function answered<T>(ask: (terminal: Terminal) => Promise<T>): Promise<Exclude<T, symbol>> {
    const answer = await onTerminal(context, ask);
    context.signal.throwIfAborted();
    if (isCancel(answer)) throw new InterruptedError('SIGINT');
    return answer as Exclude<T, symbol>;
  }
  return {
    address: async (initial, insecureHttp) => {
      const message = 'Where is the server? Its address, without /api/v1';
      const validate = (given = '') => problemOf(() => checkedAddress(given, insecureHttp));
      const start =
        initial === undefined ? { placeholder: 'https://panel.example.com' } : { initialValue: harmless(initial) };
      return checkedAddress(await answered((on) => text({ ...on, message, validate, ...start })), insecureHttp);
    },
    keySource: (initial) =>
      answered((on) =>
        select<KeySource['kind']>({
          ...on,
          message: 'Where shall the key come from?',
          initialValue: initial,
          options: [
            { value: 'file', label: 'a file', hint: 'written now, for your eyes only' },
            { value: 'environment', label: 'a variable', hint: 'you set it where the commands run' },
            { value: 'credential', label: 'a credential of systemd', hint: 'LoadCredential= of the service' },
          ],
        }),
      ),
    words: (message, initial) =>
      answered((on) =>
        text({
          ...on,
          message,
          initialValue: initial,
          validate: (given = '') => (given.trim() === '' ? 'Something must stand here.' : undefined),
        }),
      ),
    key: async (message) => {
      const validate = (given = '') => problemOf(() => typedKey(given));
      return typedKey(await answered((on) => password({ ...on, message, validate })));
    },
    yes: (message, initial) => answered((on) => confirm({ ...on, message, initialValue: initial })),
  };
}

/** What is wrong with an answer, for the one who gave it. */
function problemOf(read: () => unknown): string | undefined {
  try {
    read();
    return undefined;
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return `${error.message}. ${error.advice ?? ''}`.trim();
  }
}
