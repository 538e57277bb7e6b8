// @module-tag full
/** `publish` on the command line, and as a job of the worker. */
import { existsSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { lockSchema, openDatabase } from '../../src/data/publish/database.ts';
import { type CliResult, runCli, spawnCli } from '../support/cli.ts';
import { mirroredFolder } from '../support/mirror.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { destinationIn } from '../support/publish.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A folder with a mirror, and a config file that publishes it to a test database. */
async function publishable() {
  const { folder, sandbox } = await mirroredFolder();
  const database = await temporaryDatabase();
  writeFileSync(`${folder}/password`, `${database.password}\n`, { mode: 0o600 });
  writeFileSync(
    `${folder}/settings.yaml`,
    `publish:
  url: ${database.url}
  password_file: password
jobs:
  - name: sync
    run: sync
    cron: "15 2 * * *"
  - name: publish
    run: publish
    cron: "30 2 * * *"
    after: sync
`,
    { mode: 0o600 },
  );
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const all: CliResult[] = [];
  const command = async (run: typeof runCli, args: readonly string[]) => {
    const end = await run(['--config', 'settings.yaml', ...args], { folder, environment });
    all.push(end);
    return end;
  };
  onTestFinished(() => {
    // The password is never printed, whatever was run and whatever failed.
    for (const { stdout, stderr } of all) expect(stdout + stderr).not.toContain(database.password);
  });
  return {
    folder,
    database,
    run: (...args: string[]) => command(runCli, args),
    spawn: (...args: string[]) => command(spawnCli, args),
  };
}

test('publish writes a mirror, compares it and restores it; differences end with 6', async () => {
  const { folder, database, run, spawn } = await publishable();
  const checks = async () => {
    const { checks } = JSON.parse((await run('doctor', '--json')).stdout) as {
      checks: { name: string; finding: string }[];
    };
    return checks.find(({ name }) => name === 'publish')?.finding;
  };
  expect(await checks()).toBe('the database can be reached; nothing is published there yet');
  const first = await spawn('publish');
  expect(await checks()).toMatch(/^published 20/);
  expect(first).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^mirror: everything, [\d,]+ rows written, fresh as of 20/) as string,
  });
  expect(JSON.parse((await run('publish', '--json')).stdout)).toMatchObject({
    schema: 'mirror',
    mode: 'changes',
    tables: { users: { written: 0, deleted: 0 } },
  });
  expect(await run('publish', '--check')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/\nequal\n$/) as string,
  });
  await database.query(`UPDATE mirror.coupons SET code = 'FREE' WHERE id = 3`);
  const check = await run('publish', '--check');
  expect(check.code).toBe(6);
  expect(check.stdout).toMatch(/^coupons +different .*\n {2}different: 3\n/m);
  expect(check.stdout).toMatch(/`npx admin-mirror --config settings.yaml publish --full` repairs it\n$/);

  const restored = await run('restore', '--published', '--db', 'restored/mirror.db');
  expect(restored).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(
      /^mirror {3}restored\/mirror\.db, .* checked\njournal {2}left as it is\nmade {5}20/,
    ) as string,
  });
  expect((await run('status', '--db', 'restored/mirror.db')).code).toBe(0);
  expect(existsSync(`${folder}/restored/mirror.db`)).toBe(true);
});

test('publish can be a job of the worker', async () => {
  const { run, spawn } = await publishable();
  expect(await run('schedule', '--list')).toMatchObject({ code: 0 });
  const once = await spawn('schedule', '--once', 'publish');
  expect(once).toMatchObject({ code: 0, stdout: expect.stringContaining('rows written') as string });
});

test('publish ends with 7 while another one runs, and names missing settings', async () => {
  const { database, run, folder } = await publishable();
  const other = await openDatabase(destinationIn(database), new AbortController().signal);
  await lockSchema(other, 'mirror');
  expect(await run('publish')).toMatchObject({
    code: 7,
    stderr: expect.stringContaining('another process is publishing') as string,
  });
  await other.close();
  writeFileSync(`${folder}/password`, '');
  expect(await run('publish')).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('publish.password_file') as string,
  });
  const bare = await runCli(['publish'], { folder: temporaryFolder() });
  expect(bare).toMatchObject({ code: 2, stderr: expect.stringContaining('Set publish.url') as string });
  const open = await runCli(['publish'], {
    folder,
    environment: { ADMIN_MIRROR_PUBLISH_URL: database.urlWithPassword },
  });
  expect(open.code).toBe(2);
  expect(open.stderr).toContain('expected the address of a database');
  expect(open.stderr).not.toContain(encodeURIComponent(database.password));
});
