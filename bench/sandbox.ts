/** A sandbox in a child process, so that serving and reading do not share a thread. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { SandboxOptions } from '../src/sandbox/sandbox.ts';

export interface BenchSandbox {
  readonly url: string;
  readonly key: string;
  readonly environment: Readonly<Record<string, string>>;
  /** Changes so many users at random places. */
  changeUsers(count: number): Promise<void>;
  close(): void;
}

/** Starts a sandbox with this many users and waits until it serves. */
export async function startBenchSandbox(
  users: number,
  emails = 0,
  more: Pick<SandboxOptions, 'behaviour'> = {},
): Promise<BenchSandbox> {
  const options = { users, emails, packages: 0, coupons: 0, ...more };
  const child = fork(fileURLToPath(new URL('sandbox-child.ts', import.meta.url)), [JSON.stringify(options)]);
  const [{ url, key }] = (await once(child, 'message')) as [{ readonly url: string; readonly key: string }];
  return {
    url,
    key,
    environment: { ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key },
    changeUsers: async (count) => {
      child.send(count);
      await once(child, 'message');
    },
    close: () => void child.kill('SIGKILL'),
  };
}
