/** `bulk` as it is typed, in its own folder and against its own sandbox. */
import type { ChildProcess } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { BatchReport } from '../../src/bulk/report.ts';
import type { Behaviour, Sandbox } from './bent/sandbox.ts';
import { newUser } from './bulk.ts';
import { invoke, type Invocation } from './invoke.ts';
import { startSandbox } from './sandbox.ts';
import { temporaryFolder } from './temporary-folder.ts';

/** A response that is lost is given up soon. */
const constants = { api: { timeoutMs: 1_000 } };

export const csv = 'user_id,type,amount,description\n';

export async function bulkWorld(behaviour: Partial<Behaviour> = {}, emails = 5) {
  const sandbox = await startSandbox({ users: 5, emails, behaviour });
  const folder = temporaryFolder();
  const environment = {
    ADMIN_MIRROR_BASE_URL: sandbox.url,
    ADMIN_MIRROR_API_KEY: sandbox.key,
  };
  const command = (args: readonly string[], more: Invocation = {}) =>
    invoke(args, { folder, environment, constants, ...more });
  const bulk = async (args: readonly string[], more: Invocation = {}) => {
    const done = await command(['bulk', ...args], more);
    return { ...done, report: () => JSON.parse(done.stdout) as BatchReport };
  };
  const file = (text: string, name = 'credit.csv'): string => {
    writeFileSync(join(folder, name), text);
    return name;
  };
  return { sandbox, folder, environment, command, bulk, file };
}

export type BulkWorld = Awaited<ReturnType<typeof bulkWorld>>;

/** The number of writes that the server has made. */
export const made = ({ control }: Sandbox): number => control.ledger().length;

/** Resolves when the server has made this many writes, or when the command has ended. */
export async function whenMade(sandbox: Sandbox, count: number, child: ChildProcess): Promise<void> {
  while (made(sandbox) < count && child.exitCode === null) await setTimeout(3);
}

/** Users with a balance of 10 each, and a file that adds the amount to each. */
export function creditFile({ sandbox, file }: BulkWorld, count: number, amount = '5', name?: string) {
  const users = Array.from({ length: count }, () => newUser(sandbox, 10));
  return { users, name: file(csv + users.map((user) => `${user},add,${amount},Credit\n`).join(''), name) };
}
