/** The flags of an operation's parameters: defined from its descriptor, read into the body of the request. */
import { type Command, Option } from 'commander';
import { UsageError } from '../model/errors.ts';
import { parseMoney } from '../model/money.ts';
import { suggestion } from '../model/nearest.ts';
import type { Operation, Parameter } from '../model/operations.ts';
import { readInput } from './input.ts';

/** As commander gives them, by attribute name. */
export type ParameterFlags = Readonly<Record<string, string | boolean | undefined>>;

/** `address[zip_code]` → `address-zip-code`. */
function flagOf(parameter: Parameter): string {
  return parameter.name.replaceAll(/[[_]/g, '-').replaceAll(']', '');
}

/** `address-zip-code` → `addressZipCode`, as commander names it. */
function attributeOf(parameter: Parameter): string {
  return flagOf(parameter).replaceAll(/-([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}

const placeholders = { string: 'text', number: 'amount', code: 'code', icon: 'icon', url: 'url' } as const;

/** Texts that may be long, or that nobody should see: given as `-`, they are read from standard input. */
const readable = new Set(['content', 'message', 'password']);

function meaningOf({ values, note, name, required }: Parameter): string {
  const choice = values === undefined ? '' : `one of ${values.join(', ')}`;
  const stdin = readable.has(name) ? '- reads it from standard input' : '';
  const words = [choice, note, stdin].filter((each) => each !== '').join('; ');
  return `${words === '' ? name : words}${required ? ' (required)' : ''}`;
}

/** Adds a flag for each parameter of the operation. */
export function addParameterFlags(command: Command, operation: Operation): void {
  for (const parameter of operation.parameters) {
    const flag = flagOf(parameter);
    if (parameter.type === 'boolean') {
      command.addOption(new Option(`--${flag}`, meaningOf(parameter)));
      // To say no is something else than to say nothing.
      command.addOption(new Option(`--no-${flag}`, `not that: send ${parameter.name} as false`));
    } else {
      const option = new Option(`--${flag} <${placeholders[parameter.type]}>`, meaningOf(parameter));
      command.addOption(option.makeOptionMandatory(parameter.required));
    }
  }
}

function checkedText(parameter: Parameter, text: string): string {
  const { values, type } = parameter;
  const flag = `--${flagOf(parameter)}`;
  if (values !== undefined && !values.includes(text)) {
    throw new UsageError(`${flag} cannot be "${text}"`, { advice: suggestion(text, values) });
  }
  if (type === 'url' && !URL.canParse(text)) {
    throw new UsageError(`${flag} "${text}" is no address`, { advice: 'Write it as in https://example.com/page.' });
  }
  if (type !== 'number') return text;
  const parsed = parseMoney(text);
  if ('problem' in parsed) throw new UsageError(`${flag}: ${parsed.problem}`);
  return parsed.money;
}

/**
 * What the flags say, by the API's names; `address[city]` goes into an object, an amount is a Money. A text given as `-`
 * is read from the stream, without its last line break. Throws a UsageError.
 */
export async function bodyOf(
  operation: Operation,
  flags: ParameterFlags,
  stdin: NodeJS.ReadableStream,
): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = {};
  let read = false;
  for (const parameter of operation.parameters) {
    const given = flags[attributeOf(parameter)];
    if (given === undefined) continue;
    let value: string | boolean = given;
    if (given === '-' && readable.has(parameter.name)) {
      if (read) throw new UsageError('only one text can be read from standard input');
      read = true;
      value = (await readInput(stdin)).replace(/\r?\n$/, '');
    } else if (typeof given === 'string') {
      value = checkedText(parameter, given);
    }
    setValue(body, parameter.name, value);
  }
  return body;
}

function setValue(body: Record<string, unknown>, name: string, value: string | boolean): void {
  const [outer = '', inner] = name.replace(']', '').split('[');
  if (inner === undefined) {
    body[outer] = value;
  } else {
    body[outer] = { ...(body[outer] as object | undefined), [inner]: value };
  }
}
