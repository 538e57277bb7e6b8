/** `users`, `packages`, `emails`, `coupons`: every operation of the live API, defined from the descriptors. */
import type { Command } from 'commander';
import type { Client } from '../api/operations.ts';
import { recordIn } from '../api/body.ts';
import type { Response } from '../api/errors.ts';
import { IncompleteError, OperatorError, suggestion, UsageError } from '../model/errors.ts';
import { type Operation, operations } from '../model/operations.ts';
import { recordKey, tooLargeToWrite, writtenId, type RecordKey } from '../model/records.ts';
import { type Resource, resourceNames, resourceOf, type UserRelation } from '../model/resources.ts';
import { passwordsIn } from '../model/secret.ts';
import { harmless } from '../model/text.ts';
import { systemClock } from '../model/time.ts';
import { promptForConsent, noteServer } from './prompts.ts';
import type { CliContext } from './context.ts';
import {
  addListFlags,
  addParameterFlags,
  bodyOf,
  type ListFlags,
  listWordsOf,
  type ParameterFlags,
} from './resource-flags.ts';
import { printWarning } from './output.ts';
import { checkedListOptions } from '../api/lists.ts';
import { openApi } from '../api/open.ts';
import { openJournalMemory } from '../bulk/open-memory.ts';
import { movesMoney, prepareWrite, type SendWrite } from '../bulk/single-write.ts';
import { tokenAtEnd } from '../bulk/token.ts';
import { jsonText, printResponse, printPage, printPages } from './print-response.ts';
import { openLog } from './logger.ts';
import { openJournal } from '../journal/open.ts';

export function define(program: Command, context: CliContext): void {
  for (const name of resourceNames) defineResource(program, context, resourceOf(name));
}

function defineResource(program: Command, context: CliContext, resource: Resource): void {
  const own = operations.filter((each) => each.resource === resource.name);
  const what = own.length === 1 ? 'List' : 'List, show and change';
  const parent = program
    .command(resource.name)
    .description(`${what} the ${resource.name} of the server itself, not of the mirror.`);
  for (const operation of own) defineOperation(parent, context, resource, operation);
}

function defineOperation(parent: Command, context: CliContext, resource: Resource, operation: Operation): void {
  const command = parent
    .command(operation.command)
    .description([`${operation.summary}.`, ...operation.rules.map((rule) => rule.replaceAll('`', ''))].join(' '));
  if (operation.paginated) {
    addListFlags(command, resource);
    command.action((flags: ListFlags) => runList(context, resource, flags));
    return;
  }
  const ofOne = operation.path.includes('{user}');
  if (ofOne) command.argument('<id>', "the user's id");
  if (operation.relations.length > 0) {
    const names = operation.relations.join(', ');
    command.option('--with <names>', `related records to include, separated by commas: ${names}`);
  }
  addParameterFlags(command, operation);
  if (operation.confirm) command.option('--yes', 'do not ask before sending');
  command.action((...given: unknown[]) => {
    const [id, flags] = ofOne ? [String(given[0]), given[1]] : [undefined, given[0]];
    return runOperation(context, operation, id, flags as ParameterFlags);
  });
}

/** Runs the work with a client. Under `--json`, also prints the response to a refused request. */
async function withClient(context: CliContext, work: (client: Client) => Promise<void>): Promise<void> {
  const log = openLog(context);
  const client = openApi({ settings: context.settings(), log, clock: systemClock }, context.releases);
  try {
    await work(client);
  } catch (error) {
    if (context.json() && error instanceof OperatorError) await printRefusal(context, client, error);
    throw error;
  }
}

async function printRefusal(context: CliContext, client: Client, error: OperatorError): Promise<void> {
  const response = (error as { readonly response?: Response | undefined }).response;
  if (response === undefined) return;
  context.stdout.write(harmless(context.redact(client.redact(jsonText(response.raw)))));
}

async function runList(context: CliContext, resource: Resource, flags: ListFlags): Promise<void> {
  const words = listWordsOf(flags);
  const options = checkedListOptions(resource.name, words);
  const include = words.include ?? [];
  await withClient(context, async (client) => {
    if (flags.all === true) {
      await printPages(context, resource, include, client.pages(resource.name, options, context.signal));
    } else {
      printPage(context, resource, include, await client.list(resource.name, options, context.signal));
    }
  });
}

async function runOperation(
  context: CliContext,
  operation: Operation,
  idText: string | undefined,
  flags: ParameterFlags,
): Promise<void> {
  const key = idText === undefined ? 0 : idOf(idText);
  if (operation.method !== 'GET' && typeof key === 'bigint') throw new UsageError(tooLargeToWrite(key));
  const id = Number(key);
  const relations = relationsOf(operation, flags['with']);
  const body = await bodyOf(operation, flags, context.stdin());
  for (const word of passwordsIn(body)) context.keepSecret(word);
  checkBody(operation, body);
  await withClient(context, async (client) => {
    const call = { key, id, relations, body, signal: context.signal };
    const record = operation.method === 'GET' ? undefined : await openRecord(context, client, operation, call);
    const doing = `${doingOf(operation, id, body)} at ${client.address}`;
    if (operation.confirm) {
      const typed = operation.name === 'users.delete' ? { typed: String(id) } : {};
      await promptForConsent(context, { doing, ...typed }, flags['yes'] === true);
    } else if (record !== undefined) {
      noteServer(context, doing);
    }
    if (record !== undefined) context.sends();
    const sent = () => send(client, operation, call);
    const response = await (record === undefined ? sent() : record(sent));
    printResponse(context, response);
    if (operation.name === 'users.get') checkIsRequested(response, key);
  });
}

/** Throws if the response shows somebody else, whose balance could be taken for this user's. */
function checkIsRequested({ body }: Response, key: RecordKey): void {
  const record = recordIn(body);
  if (record === undefined || recordKey(record) === key) return;
  throw new IncompleteError(`user ${key} was requested, but the response shows user ${String(record['id'])}`, {
    advice: 'A route or a cache of the server is wrong: report it to whoever runs it.',
  });
}

/** Opens the journal, and warns about open or repeated writes. Returns the function that sends and records this one. */
async function openRecord(
  context: CliContext,
  client: Client,
  { name, path }: Operation,
  { id, body, signal }: Call,
): Promise<SendWrite> {
  const [settings, { releases }] = [context.settings(), context];
  const journal = await openJournal(settings, context.actor(), systemClock, releases);
  const memory = movesMoney(name) ? openJournalMemory(settings, releases) : null;
  const rules = { againWithinMs: settings.bulk.againWithinMs, rivals: settings.rivals };
  const write = { operation: name, user: path.includes('{user}') ? id : null, body };
  const { warning, send } = await prepareWrite({ journal, memory, client, rules }, write, signal);
  if (warning !== null) printWarning(context, warning);
  return send;
}

function idOf(text: string): RecordKey {
  const id = writtenId(text);
  if (id !== undefined) return id;
  throw new UsageError(`"${text}" is not a user id`, { advice: 'An id is a whole number above 0, of up to 64 bits.' });
}

function relationsOf({ relations }: Operation, given: unknown): UserRelation[] {
  const names = typeof given === 'string' ? given.split(',').map((each) => each.trim()) : [];
  for (const name of names) {
    if (relations.includes(name)) continue;
    throw new UsageError(`a user has no related records "${name}"`, { advice: suggestion(name, relations) });
  }
  return names as UserRelation[];
}

/** Checks what commander cannot: a change that changes nothing, the mark of another change, an amount below zero. */
function checkBody({ name, parameters }: Operation, body: Readonly<Record<string, unknown>>): void {
  if (name === 'users.update' && Object.keys(body).length === 0) {
    const flags = parameters.map((each) => `--${each.name.replaceAll('_', '-')}`).join(', ');
    throw new UsageError('there is nothing to change', { advice: `Give one of ${flags}.` });
  }
  for (const [parameter, value] of Object.entries(body)) {
    const mark = typeof value === 'string' ? tokenAtEnd(value) : undefined;
    if (mark === undefined) continue;
    // With the same mark, that row would look applied, or applied twice.
    throw new UsageError(`--${parameter.replaceAll('_', '-')} ends with ${mark}, the mark of a row of a batch`, {
      advice: 'Remove the mark (in HTML, the whole comment): admin-mirror finds that row by it.',
    });
  }
  const { amount = '', type } = body as Readonly<Record<string, string | undefined>>;
  if (name === 'users.update-balance' && amount.startsWith('-') && type !== 'set') {
    throw new UsageError(`--amount ${amount} is below zero`, {
      advice: 'Use --type remove and the amount without its sign.',
    });
  }
}

/** Returns what will be done, for the question. */
function doingOf({ name, summary }: Operation, id: number, body: Readonly<Record<string, unknown>>): string {
  const { type, amount, subject, email } = body as Readonly<Record<string, string | undefined>>;
  if (name === 'users.update-balance') {
    return type === 'set'
      ? `set the balance of user ${id} to ${amount}`
      : `${type} ${amount} ${type === 'add' ? 'to' : 'from'} the balance of user ${id}`;
  }
  if (name === 'users.send-email') return `email user ${id} "${subject}"`;
  if (name === 'users.send-notification') return `notify user ${id}`;
  if (name === 'users.create') return `create the user ${email}, who may get an email,`;
  if (name === 'users.delete')
    return `delete user ${id} for good${body['force'] === true ? ', in spite of any orders,' : ''}`;
  if (name === 'users.update') return `change user ${id}`;
  return summary.toLowerCase();
}

interface Call {
  /** The id for reading; may exceed the safe integers. */
  readonly key: RecordKey;
  /** The same as a number, for writing; larger ids were refused. */
  readonly id: number;
  readonly relations: readonly UserRelation[];
  /** By the API's names. All required parameters are there, and all values are valid. */
  readonly body: Readonly<Record<string, unknown>>;
  readonly signal: AbortSignal;
}

/** Sends the request of an operation on single users. The flags were checked against the same descriptor. */
function send(client: Client, { name, path }: Operation, call: Call): Promise<Response> {
  const { key, id, relations, body, signal } = call;
  if (name === 'users.auth') return client.auth(signal);
  if (name === 'users.get') return client.getUser(key, relations, signal);
  if (name === 'users.orders') return client.orders(key, signal);
  if (name === 'users.payments') return client.payments(key, signal);
  return client.sendExactly(name, path.includes('{user}') ? id : undefined, JSON.stringify(body), signal);
}
