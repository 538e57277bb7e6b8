/** Every action by name. */
import { oneNamed } from '../model/errors.ts';
import type { Action } from './action.ts';
import { balance } from './actions/balance.ts';
import { create } from './actions/create.ts';
import { deletion } from './actions/delete.ts';
import { email, notify } from './actions/messages.ts';
import { update } from './actions/update.ts';

/** In the order of the help. */
export const actions: readonly Action[] = [balance, notify, email, create, update, deletion];

export const actionNames: readonly string[] = actions.map(({ name }) => name);

/** The action of that name. Throws a UsageError that names the nearest. */
export function actionOf(name: string): Action {
  return oneNamed(actions, name, 'there is no action');
}
