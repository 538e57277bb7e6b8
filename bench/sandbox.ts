/** A sandbox in a child process, so that serving and reading do not share a thread. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { command } from './process.ts';

export interface BenchSandbox {
  readonly url: string;
  readonly key: string;
  /** The headers of requests to its control routes. */
  readonly control: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
  close(): void;
}

/** Starts `admin-mirror sandbox` with this many users and waits until it serves. */
export async function startBenchSandbox(users: number, emails = 0, more: string[] = []): Promise<BenchSandbox> {
  const counts = ['--users', String(users), '--emails', String(emails), '--packages', '0', '--coupons', '0', ...more];
  const child = spawn(process.execPath, [command, 'sandbox', '--json', '--quiet', ...counts], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines = createInterface({ input: child.stdout });
  for await (const line of lines) {
    const { url, key, control_key } = JSON.parse(line) as { url: string; key: string; control_key: string };
    return {
      url,
      key,
      control: { 'content-type': 'application/json', authorization: `Bearer ${control_key}` },
      environment: { ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key },
      close: () => child.kill('SIGKILL'),
    };
  }
  throw new Error('the sandbox ended before it served');
}
