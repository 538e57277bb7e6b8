/** A sandbox for a test: in this process, on a free port, closed when the test ends. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { openSandbox, type Sandbox, type SandboxOptions } from './bent/sandbox.ts';
import { temporaryFolderNow } from './temporary-folder.ts';

/** The default time of a test's sandbox, so that data and days are always the same. */
export const sandboxNow = Date.parse('2026-03-11T10:20:30Z');

/** Little data; a test that needs more sets it. */
const small = { users: 60, packages: 12, emails: 90, coupons: 20, seed: 7, now: sandboxNow } as const;

/** Starts a sandbox that is closed after the running test, however that ends. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSmall(options);
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** Runs the work with a sandbox and closes it afterwards; for hooks and use outside tests. */
export async function withSandbox<T>(options: SandboxOptions, work: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const sandbox = await openSmall(options);
  try {
    return await work(sandbox);
  } finally {
    await sandbox.close();
  }
}

/** Filled databases by their options: filling a new one takes longer than most tests. */
const filled = new Map<string, Buffer>();
/** The most records of a filled database that is kept. */
const mostKept = 5_000;

/** A sandbox with little data. The caller closes it. */
export async function openSmall(more: SandboxOptions = {}): Promise<Sandbox> {
  const options = { ...small, ...more };
  const { file, users, packages, emails, coupons, seed, chaos, behaviour } = options;
  const now = typeof options.now === 'function' ? options.now() : options.now;
  if (file !== undefined || typeof now !== 'number' || !(users + packages + emails + coupons <= mostKept)) {
    return openSandbox(options);
  }
  const plan = { now, users, packages, emails, coupons, seed, ...(chaos === undefined ? {} : { chaos }) };
  const key = JSON.stringify([plan, behaviour?.ties]);
  const folder = temporaryFolderNow();
  try {
    const copy = join(folder.path, 'sandbox.db');
    let bytes = filled.get(key);
    if (bytes === undefined) {
      const { ties } = behaviour ?? {};
      const only = ties === undefined ? {} : { ties };
      await (await openSandbox({ ...plan, file: copy, behaviour: only })).close();
      bytes = readFileSync(copy);
      filled.set(key, bytes);
    }
    writeFileSync(copy, bytes);
    const sandbox = await openSandbox({ ...options, file: copy });
    return sandbox;
  } finally {
    // The database stays open, and nothing else uses its path.
    folder.remove();
  }
}
