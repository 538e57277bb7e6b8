/** The handler of each operation: what the API does when nothing goes wrong. */
import { type OperationName } from '../model/operations.ts';
import { resourceOf, userRelations } from '../model/resources.ts';
import { answerList, type Query, servedRecord } from './lists.ts';
import { notFound } from './refusal.ts';
import { type JsonRecord, toJson } from './serialise.ts';
import type { Answer, SandboxState } from './state.ts';
import { changeBalance, createUser, deleteUser, sendEmail, sendNotification, updateUser, userOf } from './users.ts';

/** A request, as far as an operation looks at it. */
export interface OperationRequest {
  readonly user: string;
  readonly query: Query;
  readonly body: JsonRecord;
}

/** One record, or a list of related ones, in the shape that the switch says. */
function wrapped(state: SandboxState, name: string, json: string, message?: string): string {
  const note = message === undefined ? '' : `,"message":${toJson(message)}`;
  switch (state.behaviour.answer_shape) {
    case 'bare':
      return json;
    case 'data':
      return `{"status":true${note},"data":${json}}`;
    case 'named':
      return `{"status":true${note},"${name}":${json}}`;
  }
}

function user(state: SandboxState, record: JsonRecord, relations: readonly string[], message?: string): string {
  return wrapped(state, 'user', servedRecord(state, resourceOf('users'), toJson(record), relations), message);
}

/** The relations whose parameter is there and not switched off. */
function askedRelations(query: Query): string[] {
  return userRelations.filter((name) => {
    const value = query[name];
    return value !== undefined && value !== '0' && value !== 'false';
  });
}

/** The key belongs to the user with the lowest id. */
function keyOwner(state: SandboxState): JsonRecord {
  const owner = state.tables.users.from(1);
  if (owner === undefined) throw notFound('User', 1);
  return owner;
}

/** Does the operation and answers. Throws Refusal where it may not be done. */
export function answerOperation(state: SandboxState, name: OperationName, request: OperationRequest): Answer {
  const found = (): JsonRecord => userOf(state, request.user);
  const done = (body: string, status = 200): Answer => ({ status, body });
  switch (name) {
    case 'users.list':
      return answerList(state, resourceOf('users'), request.query);
    case 'packages.list':
      return answerList(state, resourceOf('packages'), request.query);
    case 'emails.list':
      return answerList(state, resourceOf('emails'), request.query);
    case 'coupons.list':
      return answerList(state, resourceOf('coupons'), request.query);
    case 'users.auth':
      return done(user(state, keyOwner(state), []));
    case 'users.get':
      return done(user(state, found(), askedRelations(request.query)));
    case 'users.orders':
      return done(wrapped(state, 'orders', toJson(state.related.list('users', found(), 'orders'))));
    case 'users.payments':
      return done(wrapped(state, 'payments', toJson(state.related.list('users', found(), 'payments'))));
    case 'users.create':
      return done(user(state, createUser(state, request.body), ['address'], 'The user was created.'), 201);
    case 'users.update':
      return done(user(state, updateUser(state, found(), request.body), [], 'The user was updated.'));
    case 'users.delete':
      deleteUser(state, found(), request.body);
      return done('{"status":true,"message":"The user was deleted."}');
    case 'users.update-balance':
      return done(user(state, changeBalance(state, found(), request.body), [], 'The balance was updated.'));
    case 'users.send-email':
      return done(wrapped(state, 'email', toJson(sendEmail(state, found(), request.body)), 'The email was sent.'));
    case 'users.send-notification': {
      const notification = toJson(sendNotification(state, found(), request.body));
      return done(wrapped(state, 'notification', notification, 'The notification was sent.'));
    }
  }
}
