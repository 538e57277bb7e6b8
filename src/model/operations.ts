/**
 * The fourteen operations of the Administration API with their parameters. The client's types, the command line's flags, the
 * sandbox's validation and docs/api.md come from this list.
 */
import { type ResourceName, userRelations } from './resources.ts';

export type HttpMethod = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** How a parameter's text is read. `code` is a language or country code, `icon` an SVG or an icon-font name. */
type ParameterType = 'string' | 'number' | 'boolean' | 'code' | 'icon' | 'url';

export interface Parameter {
  /** As the API spells it; `address[street]` is the key `street` of the object `address`. */
  readonly name: string;
  readonly type: ParameterType;
  readonly required: boolean;
  /** The accepted words, if the reference lists them. */
  readonly values?: readonly string[];
  readonly note: string;
}

export interface Operation {
  readonly name: OperationName;
  readonly resource: ResourceName;
  /** The word after the resource on the command line. */
  readonly command: string;
  readonly method: HttpMethod;
  /** `{user}` stands for the user's id. */
  readonly path: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  /** Names of related records that can be requested with the response (reading one user). */
  readonly relations: readonly string[];
  readonly paginated: boolean;
  /** Rules that the reference states, in our words. */
  readonly rules: readonly string[];
  /** Whether it needs consent before it is sent, because it cannot be taken back or reaches a person. */
  readonly confirm: boolean;
}

export type OperationName =
  | 'users.list'
  | 'users.create'
  | 'users.auth'
  | 'users.get'
  | 'users.update'
  | 'users.delete'
  | 'users.orders'
  | 'users.payments'
  | 'users.update-balance'
  | 'users.send-email'
  | 'users.send-notification'
  | 'packages.list'
  | 'emails.list'
  | 'coupons.list';

type ParameterOptions = Partial<Pick<Parameter, 'required' | 'values' | 'note'>>;

function parameter(name: string, type: ParameterType, options: ParameterOptions = {}): Parameter {
  return { name, type, required: false, note: '', ...options };
}

const required = { required: true } as const;

/** How `update-balance` applies its amount. */
export const balanceChangeTypes = ['add', 'remove', 'set'] as const;
export type BalanceChangeType = (typeof balanceChangeTypes)[number];

export const notificationTypes = ['success', 'warning', 'danger'] as const;
export type NotificationType = (typeof notificationTypes)[number];

function operation(
  name: OperationName,
  method: HttpMethod,
  path: string,
  summary: string,
  more: Partial<Pick<Operation, 'parameters' | 'relations' | 'paginated' | 'rules' | 'confirm'>> = {},
): Operation {
  const [resource, command] = name.split('.') as [ResourceName, string];
  const none = { parameters: [], relations: [], paginated: false, rules: [], confirm: false };
  return { name, resource, command, method, path, summary, ...none, ...more };
}

const list = { paginated: true } as const;

export const operations: readonly Operation[] = [
  operation('users.list', 'GET', '/api/v1/users', 'List users', list),
  operation('users.create', 'POST', '/api/v1/users', 'Create a user', {
    parameters: [
      parameter('first_name', 'string', required),
      parameter('last_name', 'string', required),
      parameter('username', 'string', required),
      parameter('email', 'string', required),
      parameter('password', 'string', { note: 'when empty, a random one is generated and emailed to the user' }),
      parameter('language', 'code', { note: 'language code' }),
      parameter('address[company_name]', 'string'),
      parameter('address[street]', 'string'),
      parameter('address[street2]', 'string'),
      parameter('address[city]', 'string'),
      parameter('address[region]', 'string', { note: 'state, province or region' }),
      parameter('address[country]', 'code', { note: 'country code' }),
      parameter('address[zip_code]', 'string'),
      parameter('welcome_email', 'boolean', { note: 'send a welcome email on creation' }),
      parameter('mark_email_verified', 'boolean', { note: 'mark the email as verified on creation' }),
    ],
    rules: ['An empty password makes the server generate one and email it to the user.'],
    // A password or a welcome email may go to a person.
    confirm: true,
  }),
  operation('users.auth', 'GET', '/api/v1/users/auth', 'Show the user that owns the key'),
  operation('users.get', 'GET', '/api/v1/users/{user}', 'Show one user', { relations: userRelations }),
  operation('users.update', 'PUT', '/api/v1/users/{user}', 'Change a user', {
    parameters: [
      parameter('first_name', 'string'),
      parameter('last_name', 'string'),
      parameter('username', 'string'),
      parameter('password', 'string'),
      parameter('language', 'code', { note: 'language code' }),
    ],
    rules: ['Only the values that are sent are changed.'],
  }),
  operation('users.delete', 'DELETE', '/api/v1/users/{user}', 'Delete a user for good', {
    parameters: [parameter('force', 'boolean', { note: 'delete even with active orders or punishments' })],
    rules: [
      'The deletion is permanent.',
      'Without `force`, a user with active or suspended orders, or with any punishment on record, is not deleted.',
      'With `force`, these conditions are ignored.',
    ],
    confirm: true,
  }),
  operation('users.orders', 'GET', '/api/v1/users/{user}/orders', "Show a user's orders"),
  operation('users.payments', 'GET', '/api/v1/users/{user}/payments', "Show a user's payments"),
  operation('users.update-balance', 'PUT', '/api/v1/users/{user}/update-balance', "Change a user's balance", {
    parameters: [
      parameter('type', 'string', {
        required: true,
        values: balanceChangeTypes,
        note: 'how the amount is applied',
      }),
      parameter('amount', 'number', required),
      parameter('description', 'string', { note: 'description of the transaction; the user can see it' }),
    ],
    confirm: true,
  }),
  operation('users.send-email', 'POST', '/api/v1/users/{user}/send-email', 'Email a user', {
    parameters: [
      parameter('subject', 'string', required),
      parameter('content', 'string', { required: true, note: 'HTML is supported' }),
    ],
    confirm: true,
  }),
  operation('users.send-notification', 'POST', '/api/v1/users/{user}/send-notification', 'Notify a user', {
    parameters: [
      parameter('type', 'string', { required: true, values: notificationTypes }),
      parameter('icon', 'icon', { required: true, note: 'an SVG, or an icon of an icon font' }),
      parameter('message', 'string', { required: true, note: 'text of the notification' }),
      parameter('url', 'url', { note: 'where a click on the notification leads' }),
    ],
    confirm: true,
  }),
  operation('packages.list', 'GET', '/api/v1/packages', 'List packages', list),
  operation('emails.list', 'GET', '/api/v1/emails', 'List emails', list),
  operation('coupons.list', 'GET', '/api/v1/coupons', 'List coupons', list),
];

const byName = new Map(operations.map((each) => [each.name, each]));

export function operationOf(name: OperationName): Operation {
  const found = byName.get(name);
  if (found === undefined) throw new Error(`no operation is called ${name}`);
  return found;
}

/** Returns the path with the user's id. */
export function pathOf(operation: Operation, user?: number | bigint): string {
  return user === undefined ? operation.path : operation.path.replace('{user}', String(user));
}
