/** Workers on several machines, each a process with its own folder, over one PostgreSQL. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { onTestFinished } from 'vitest';
import { startCli } from './cli.ts';
import { atPort, openLine } from './line.ts';
import type { TestDatabase } from './postgres.ts';
import { temporaryFolder } from './temporary-folder.ts';

interface LogLine {
  readonly msg: string;
  readonly profile?: string;
  readonly job?: string;
  readonly job_run?: string;
  readonly occurrence?: string;
  readonly outcome?: string;
}

/** A machine of the fleet: a folder, and the environment of its commands. */
export interface Machine {
  readonly folder: string;
  readonly environment: Record<string, string>;
}

/** @param config the config file, the same on every machine */
export function fleetOver(database: Pick<TestDatabase, 'url' | 'password'>, config: string) {
  const secrets = temporaryFolder();
  writeFileSync(join(secrets, 'password'), database.password, { mode: 0o600 });
  const machine = (url = database.url): Machine => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), config);
    return {
      folder,
      environment: {
        ADMIN_MIRROR_WORKER_LISTEN: '127.0.0.1:0',
        ADMIN_MIRROR_STORE_SHARED: url,
        ADMIN_MIRROR_STORE_SHARED_PASSWORD_FILE: join(secrets, 'password'),
        ADMIN_MIRROR_PUBLISH_URL: url,
        ADMIN_MIRROR_PUBLISH_PASSWORD_FILE: join(secrets, 'password'),
      },
    };
  };
  return { machine };
}

/** The machine with a clock that is this many ms ahead, for every process on it. */
export function withClock({ folder, environment }: Machine, aheadMs: number): Machine {
  const module = `const now = Date.now; Date.now = () => now() + ${aheadMs};`;
  return {
    folder,
    environment: { ...environment, NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(module)}` },
  };
}

/** Starts a worker on the machine and reads its log line by line. */
export function startWorker(machine: Machine, ...flags: readonly string[]) {
  const child = startCli(['schedule', ...flags], machine);
  const lines: { readonly at: number; readonly line: LogLine }[] = [];
  const listeners = new Set<() => void>();
  createInterface({ input: child.stderr }).on('line', (text) => {
    let line: LogLine = { msg: text };
    try {
      line = JSON.parse(text) as LogLine;
    } catch {
      // Not a line of the log.
    }
    lines.push({ at: Date.now(), line });
    for (const listener of listeners) listener();
  });
  const code = new Promise<number | null>((resolve) => child.on('close', resolve));
  onTestFinished(() => void child.kill('SIGKILL'));
  /** Waits for a line with the text; returns its time. */
  const saying = (text: string, profile?: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const look = () => {
        const found = lines.find(({ line }) => line.msg.includes(text) && (!profile || line.profile === profile));
        if (found === undefined) return;
        listeners.delete(look);
        resolve(found.at);
      };
      listeners.add(look);
      look();
      void code.then(() =>
        reject(
          new Error(`it ended without saying ${text}:\n${lines.map(({ line }) => JSON.stringify(line)).join('\n')}`),
        ),
      );
    });
  return { child, code, lines, saying, machine };
}

/** A connection to the database that can be cut, so that neither side notices the other. */
export async function wayTo({ url }: Pick<TestDatabase, 'url'>) {
  const { hostname: host, port } = new URL(url);
  let isCut = false;
  const line = await openLine({ host, port: Number(port) }, () => ({ isCut: () => isCut }));
  return {
    url: atPort(url, line.port),
    cut: () => void (isCut = true),
    heal: () => {
      isCut = false;
      line.endAll();
    },
  };
}
