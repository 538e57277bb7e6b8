/** The write operations on users: create, update, delete, change the balance, send an email or a notification. */
import { Big } from 'big.js';
import { isRecord } from '../model/records.ts';
import { type Operation, type OperationName, operationOf, type Parameter } from '../model/operations.ts';
import { timestampOf } from '../model/time.ts';
import { emptyRecord } from './records.ts';
import { htmlMessage, sender } from './seed-records.ts';
import { mix, textHash } from './random.ts';
import { invalid, notFound, refused, type JsonRecord } from './envelope.ts';
import type { SandboxState } from './sandbox.ts';

/** The largest balance that the column holds. */
const maxCents = 999_999_999_999_999;

/** Converts a number of the API to cents, rounded half away from zero like a decimal column. */
function centsOf(value: string | number): number {
  return new Big(typeof value === 'string' ? value.trim() : value).times(100).round(0, Big.roundHalfUp).toNumber();
}

/** Converts cents to the number that the API writes: 1250 to 12.5. This is exact, since both have at most 15 digits. */
function numberOf(cents: number): number {
  return cents / 100;
}

type Problems = Record<string, string[]>;

const codePattern = /^[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?$/;
const booleans: readonly unknown[] = [true, false, 0, 1, '0', '1', 'true', 'false'];

/** Reads a parameter: `address[street]` is the key `street` of the object `address`. */
function valueOf(body: JsonRecord, name: string): unknown {
  const match = /^(\w+)\[(\w+)\]$/.exec(name);
  if (match === null) return body[name];
  const outer = body[match[1] ?? ''];
  return isRecord(outer) ? outer[match[2] ?? ''] : undefined;
}

function isNumeric(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value === 'string' && /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/.test(value.trim());
}

function problemOf({ type, values }: Parameter, label: string, value: unknown): string | undefined {
  const { fits, words } = rules[type];
  if (!fits(value)) return `The ${label} field must be ${words}.`;
  return values === undefined || values.includes(String(value)) ? undefined : `The selected ${label} is invalid.`;
}

interface Check {
  readonly fits: (value: unknown) => boolean;
  readonly words: string;
}

const text: Check = { fits: (value: unknown) => typeof value === 'string', words: 'a string' };

const rules: Readonly<Record<Parameter['type'], Check>> = {
  string: text,
  icon: text,
  code: { fits: (value) => typeof value === 'string' && codePattern.test(value), words: 'a valid code' },
  number: { fits: isNumeric, words: 'a number' },
  boolean: { fits: (value) => booleans.includes(value), words: 'true or false' },
  url: { fits: (value) => typeof value === 'string' && URL.canParse(value), words: 'a valid URL' },
};

/** Empty text counts as no value, as with servers of this API. */
function isBlank(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'string' && value.trim() === '');
}

function problemsOf(operation: Operation, body: JsonRecord): Problems {
  const problems: Problems = {};
  const address = body['address'];
  if (address !== undefined && address !== null && !isRecord(address)) {
    problems['address'] = ['The address field must be an array.'];
  }
  for (const parameter of operation.parameters) {
    const field = parameter.name.replace('[', '.').replace(']', '');
    const label = field.replaceAll('_', ' ');
    const value = valueOf(body, parameter.name);
    if (isBlank(value)) {
      if (parameter.required) problems[field] = [`The ${label} field is required.`];
      continue;
    }
    const problem = problemOf(parameter, label, value);
    if (problem !== undefined) problems[field] = [problem];
  }
  return problems;
}

function refuseProblems(problems: Problems): void {
  if (Object.keys(problems).length > 0) throw invalid(problems);
}

function textOf(body: JsonRecord, name: string): string | undefined {
  const value = valueOf(body, name);
  return typeof value === 'string' && !isBlank(value) ? value : undefined;
}

function isYes(body: JsonRecord, name: string): boolean {
  const value = body[name];
  return value === true || value === 1 || value === '1' || value === 'true';
}

const emailPattern = /^[^\s@]+@[^\s@]+\.[^\s@]+$/;

/** Returns the present as the API stores it, in whole seconds. */
export function nowStamp(state: SandboxState): string {
  return timestampOf(Math.floor(state.clock.now() / 1_000) * 1_000);
}

/** Returns the user with the id from a path. Throws the 404. */
export function userOf(state: SandboxState, id: string): JsonRecord {
  const user = /^\d{1,15}$/.test(id) ? state.tables.users.get(Number(id)) : undefined;
  if (user === undefined) throw notFound('User', id);
  return user;
}

/** Stores an email to the user, marked as sent, and returns it. */
function emailUser(state: SandboxState, user: JsonRecord, subject: string, content: string): JsonRecord {
  const at = nowStamp(state);
  return state.tables.emails.insert({
    ...emptyRecord('emails'),
    id: state.tables.emails.nextId(),
    user_id: user['id'],
    sender,
    receiver: user['email'],
    subject,
    content,
    is_sent: 1,
    created_at: at,
    updated_at: at,
  });
}

function record(state: SandboxState, operation: OperationName, user: number, body: JsonRecord, effect: JsonRecord) {
  state.ledger.record({ at: nowStamp(state), operation, user_id: user, body, effect });
}

const addressFields = ['company_name', 'street', 'street2', 'city', 'region', 'country', 'zip_code'] as const;

/** Creates a user by the rules of `POST /users`. */
export function createUser(state: SandboxState, body: JsonRecord): JsonRecord {
  const { users } = state.tables;
  const problems = problemsOf(operationOf('users.create'), body);
  const [username, email] = [textOf(body, 'username') ?? '', textOf(body, 'email') ?? ''];
  if (problems['email'] === undefined && !emailPattern.test(email)) {
    problems['email'] = ['The email field must be a valid email address.'];
  }
  for (const [name, value] of Object.entries({ username, email })) {
    if (problems[name] === undefined && users.find(name, value) !== undefined) {
      problems[name] = [`The ${name} has already been taken.`];
    }
  }
  refuseProblems(problems);
  const at = nowStamp(state);
  const user = users.insert({
    ...emptyRecord('users'),
    id: users.nextId(),
    username,
    email,
    first_name: textOf(body, 'first_name'),
    last_name: textOf(body, 'last_name'),
    status: 'active',
    is_subscribed: 1,
    visibility: 'online',
    language: textOf(body, 'language') ?? 'en',
    email_verified_at: isYes(body, 'mark_email_verified') ? at : null,
    last_seen_at: at,
    last_login_at: at,
    created_at: at,
    updated_at: at,
  });
  const id = user['id'] as number;
  const parts = addressFields.map((name) => [name, textOf(body, `address[${name}]`) ?? null] as const);
  if (parts.some(([, value]) => value !== null)) {
    const address = { user_id: id, ...Object.fromEntries(parts), created_at: at, updated_at: at };
    state.related.add('users', id, 'address', address);
  }
  if (textOf(body, 'password') === undefined) {
    const password = mix(textHash(email), id).toString(36) + mix(id, textHash(username)).toString(36);
    emailUser(state, user, 'Your account password', htmlMessage(`Your password is <b>${password}</b>`));
  }
  if (isYes(body, 'welcome_email')) {
    emailUser(state, user, 'Welcome to your new account', htmlMessage('Your account has been created.'));
  }
  record(state, 'users.create', id, body, { username, email });
  return user;
}

const changeable = ['first_name', 'last_name', 'username', 'language'] as const;

/** Changes only the given fields. */
export function updateUser(state: SandboxState, user: JsonRecord, body: JsonRecord): JsonRecord {
  const problems = problemsOf(operationOf('users.update'), body);
  const changes: JsonRecord = {};
  for (const name of changeable) {
    if (!(name in body)) continue;
    const value = textOf(body, name);
    if (value === undefined) problems[name] ??= [`The ${name.replace('_', ' ')} field must be a string.`];
    else if (value !== user[name]) changes[name] = value;
  }
  const taken = changes['username'];
  if (typeof taken === 'string' && state.tables.users.find('username', taken) !== undefined) {
    problems['username'] = ['The username has already been taken.'];
  }
  refuseProblems(problems);
  const at = nowStamp(state);
  const touched = Object.keys(changes).length > 0 || textOf(body, 'password') !== undefined;
  const updated = touched ? { ...user, ...changes, updated_at: at } : user;
  if (touched) state.tables.users.replace(updated);
  record(state, 'users.update', user['id'] as number, body, changes);
  return updated;
}

/** Returns why the user cannot be deleted without `force`. */
function deletionObstacles(state: SandboxState, user: JsonRecord): string[] {
  const orders = state.related.list('users', user, 'orders');
  const open = orders.filter((order) => order['status'] === 'active' || order['status'] === 'suspended').length;
  const punishments = state.related.list('users', user, 'punishments').length;
  const reasons: string[] = [];
  if (open > 0) reasons.push(`The user has ${open} active or suspended order(s) and cannot be deleted.`);
  if (punishments > 0) reasons.push(`The user has ${punishments} punishment(s) on record and cannot be deleted.`);
  return reasons;
}

/** Removes the user with all related records. Returns false if there was none. */
export function removeUser(state: SandboxState, id: number): boolean {
  const gone = state.tables.users.remove(id);
  if (gone) state.related.removeAll('users', id);
  return gone;
}

export function deleteUser(state: SandboxState, user: JsonRecord, body: JsonRecord): void {
  refuseProblems(problemsOf(operationOf('users.delete'), body));
  const force = isYes(body, 'force');
  const reasons = force ? [] : deletionObstacles(state, user);
  if (reasons.length > 0) throw refused(422, reasons);
  const id = user['id'] as number;
  removeUser(state, id);
  record(state, 'users.delete', id, body, {});
}

const results = { add: '+', remove: '-', set: '=' } as const;

/** Changes the balance and records the transaction. */
export function changeBalance(state: SandboxState, user: JsonRecord, body: JsonRecord): JsonRecord {
  refuseProblems(problemsOf(operationOf('users.update-balance'), body));
  const type = body['type'] as keyof typeof results;
  const amount = centsOf(body['amount'] as string | number);
  if (amount < 0 && type !== 'set') throw invalid({ amount: ['The amount field must be at least 0.'] });
  const before = centsOf(user['balance'] as string | number);
  const after = type === 'set' ? amount : type === 'add' ? before + amount : before - amount;
  if (Math.abs(after) > maxCents) throw invalid({ amount: ['The amount field is too large.'] });
  const at = nowStamp(state);
  const id = user['id'] as number;
  const updated = { ...user, balance: numberOf(after), updated_at: at };
  state.tables.users.replace(updated);
  const transaction = state.related.add('users', id, 'balance_transactions', {
    user_id: id,
    payment_id: null,
    result: results[type],
    amount: numberOf(amount),
    balance_before_transaction: numberOf(before),
    description: textOf(body, 'description') ?? null,
    created_at: at,
    updated_at: at,
  });
  const effect = { before_cents: before, after_cents: after, transaction: transaction['id'] };
  record(state, 'users.update-balance', id, body, effect);
  return updated;
}

export function sendEmail(state: SandboxState, user: JsonRecord, body: JsonRecord): JsonRecord {
  refuseProblems(problemsOf(operationOf('users.send-email'), body));
  const email = emailUser(state, user, textOf(body, 'subject') ?? '', textOf(body, 'content') ?? '');
  record(state, 'users.send-email', user['id'] as number, body, { email: email['id'] });
  return email;
}

export function sendNotification(state: SandboxState, user: JsonRecord, body: JsonRecord): JsonRecord {
  refuseProblems(problemsOf(operationOf('users.send-notification'), body));
  const id = user['id'] as number;
  const at = nowStamp(state);
  const notification = state.related.add('users', id, 'notifications', {
    user_id: id,
    type: body['type'],
    icon: body['icon'],
    message: body['message'],
    button_url: textOf(body, 'url') ?? null,
    read: 0,
    created_at: at,
    updated_at: at,
  });
  record(state, 'users.send-notification', id, body, { notification: notification['id'] });
  return notification;
}
