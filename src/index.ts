/**
 * admin-mirror as a library: the client of the Administration API, the sandbox that replaces a server in tests,
 * and the description of every resource and operation. The command line is not part of it.
 */
export type { Client, ClientOptions } from './api/operations.ts';
export type { Patience } from './api/retry.ts';
export { openClient } from './api/operations.ts';
export type { ApiRecord } from './api/body.ts';
export type { Page } from './api/body.ts';
export type { Response } from './api/errors.ts';
export {
  KeyRefused,
  NotFound,
  NotTheApi,
  PageTooLarge,
  RefusedInput,
  ServerFailed,
  Unreachable,
  WriteOutcomeUnknown,
} from './api/errors.ts';
export type { ListOptions } from './api/lists.ts';
export { dateRange } from './api/lists.ts';
export { OperatorError, UsageError } from './model/errors.ts';
export type { Log } from './model/log.ts';
export { silentLog } from './model/log.ts';
export type { Money } from './model/money.ts';
export { parseMoney } from './model/money.ts';
export type { Operation, OperationName, Parameter } from './model/operations.ts';
export { operationOf, operations } from './model/operations.ts';
export type { Coupon, Email, Field, Package, RecordOf, Resource, ResourceName, User } from './model/resources.ts';
export { isResourceName, resourceNames, resourceOf, resources } from './model/resources.ts';
export type { Clock, Day, Timestamp } from './model/time.ts';
export { systemClock } from './model/time.ts';
export type { Behaviour, Chaos, Sandbox, SandboxControl, SandboxOptions } from './sandbox/sandbox.ts';
export { openSandbox } from './sandbox/sandbox.ts';
