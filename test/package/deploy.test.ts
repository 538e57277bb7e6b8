import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { settingOf, settingTable } from '../../src/settings/table.ts';
import { projectFolder, textOf } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const folder = join(projectFolder, 'config/deploy');

describe('the systemd units', () => {
  const names = readdirSync(join(folder, 'systemd')).filter((name) => /\.(service|timer)$/.test(name));
  const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0;

  /** The units as installed in /etc/systemd/system, with a program that exists. */
  function installed(): { readonly units: string; readonly analyze: (...args: string[]) => SpawnSyncReturns<string> } {
    const units = join(temporaryFolder(), 'units');
    cpSync(join(folder, 'systemd'), units, { recursive: true });
    for (const name of names) {
      const path = join(units, name);
      writeFileSync(path, readFileSync(path, 'utf8').replaceAll('/usr/local/bin/admin-mirror', '/bin/true'));
    }
    const environment = { ...process.env, SYSTEMD_UNIT_PATH: `${units}:` };
    const analyze = (...args: string[]) => spawnSync('systemd-analyze', args, { env: environment, encoding: 'utf8' });
    return { units, analyze };
  }

  test.skipIf(!hasSystemd)('are valid (needs systemd-analyze)', () => {
    const { units, analyze } = installed();
    const { status, stderr } = analyze('verify', '--man=no', ...names.map((name) => join(units, name)));
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  });

  test.skipIf(!hasSystemd).each(names.filter((name) => name.endsWith('.service')))(
    'give %s a low exposure level (needs systemd-analyze)',
    (name) => {
      const { units, analyze } = installed();
      const { stdout } = analyze('security', '--offline=true', '--no-pager', join(units, name));
      expect(Number(/exposure level for .*: ([\d.]+)/.exec(stdout)?.[1])).toBeLessThanOrEqual(1.7);
    },
  );

  test('start commands that exist', () => {
    for (const name of names.filter((each) => each.endsWith('.service'))) {
      const [, command = ''] = /^ExecStart=\/usr\/local\/bin\/admin-mirror (\w+)$/m.exec(unit(name)) ?? [];
      expect(existsSync(join(projectFolder, `src/cli/${command}.ts`))).toBe(true);
    }
    function unit(name: string): string {
      return readFileSync(join(folder, 'systemd', name), 'utf8');
    }
  });
});

describe('the image', () => {
  const dockerfile = textOf('config/deploy/docker/Dockerfile');

  test('has the files of the package and no others of the clone, and does not run as root', () => {
    expect(dockerfile).toContain('npm pack --pack-destination /packed && tar -xzf /packed/*.tgz -C /');
    expect(dockerfile.match(/^COPY (?!\. ).*$/gm)).toEqual([
      'COPY --from=build /package /app',
      'COPY --from=build /build/node_modules /app/node_modules',
    ]);
    const users = [...dockerfile.matchAll(/^USER (\S+)$/gm)].map(([, user]) => user);
    expect(users).toEqual(['node']);
    expect(dockerfile.indexOf('\nUSER')).toBeLessThan(dockerfile.indexOf('\nENTRYPOINT'));
  });

  test('has a health check at the address of the worker', () => {
    expect(dockerfile).toContain(`http://${String(settingOf('worker.listen').default)}/healthz`);
  });

  test('runs with a read-only root, no capabilities, and its key as a secret', () => {
    const { services, secrets } = parse(textOf('config/deploy/docker/compose.yaml')) as {
      services: Record<string, Record<string, unknown>>;
      secrets: Record<string, unknown>;
    };
    expect(services['admin-mirror']).toMatchObject({
      read_only: true,
      cap_drop: ['ALL'],
      secrets: Object.keys(secrets),
    });
    const fleet = parse(textOf('config/deploy/docker/fleet.yaml'), { merge: true }) as {
      services: Record<string, Record<string, unknown>>;
      secrets: Record<string, unknown>;
    };
    const workers = Object.keys(fleet.services).filter((name) => name.startsWith('worker-'));
    expect(workers).toHaveLength(2);
    for (const name of workers) {
      const { environment = {}, ...worker } = fleet.services[name] ?? {};
      expect(worker).toMatchObject({ read_only: true, cap_drop: ['ALL'], secrets: Object.keys(fleet.secrets) });
      const known = settingTable.flatMap(({ env }) => env);
      for (const variable of Object.keys(environment as object)) {
        // A secret can stand in a file that the variable names.
        expect(known).toContain(variable.replace(/_FILE$/, ''));
      }
    }
    // Files copied into the image must not include a key or a mirror.
    const ignored = textOf('config/deploy/docker/Dockerfile.dockerignore').split('\n');
    for (const name of ['data', '.env', 'config/admin-mirror.yaml', 'config/reports', 'secrets', '.git'])
      expect(ignored).toContain(name);
  });
});
