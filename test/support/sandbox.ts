/** A sandbox for a test: in this process, on a free port, closed when the test ends. */
import { onTestFinished } from 'vitest';
import { openSandbox, type Sandbox, type SandboxOptions } from '../../src/sandbox/sandbox.ts';

/** The moment at which a test's sandbox stands unless it says otherwise: data and days are then always the same. */
export const sandboxNow = Date.parse('2026-03-11T10:20:30Z');

/** The key of the control routes, for a test that starts a sandbox with them. */
export const controlKey = 'c0ffee00c0ffee00c0ffee00c0ffee00';

/** Little data: a test that needs more asks for it. */
const small = { users: 60, packages: 12, emails: 90, coupons: 20, seed: 7, now: sandboxNow } as const;

/** Starts a sandbox that is closed after the running test, however that ends. */
export async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ ...small, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

/** Runs the work with a sandbox and closes it afterwards; for hooks and for use outside a test. */
export async function withSandbox<T>(options: SandboxOptions, work: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  const sandbox = await openSandbox({ ...small, ...options });
  try {
    return await work(sandbox);
  } finally {
    await sandbox.close();
  }
}
