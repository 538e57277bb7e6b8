import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { MirrorStatus } from '../../src/mirror/status.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox.ts';
import { runCli } from '../support/cli.ts';
import { sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** A mirror of a sandbox under its usual name, and what `status` says of it. */
async function mirrored(options: SandboxOptions = {}) {
  const sandbox = await startSandbox(options);
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  await sync(sandbox, join(folder, 'data/mirror.db'), { pageSize: 100 });
  return {
    sandbox,
    status: async () => (await runCli(['status'], { folder })).stdout,
    json: async () => JSON.parse((await runCli(['status', '--json'], { folder })).stdout) as MirrorStatus,
  };
}

describe('status', () => {
  test('shows the server, and what was measured of each list', async () => {
    const { sandbox, status, json } = await mirrored({ behaviour: { page_max: 40, rate_limit: 5_000 } });
    const text = await status();
    expect(text).toContain(`\nthe server at ${sandbox.url}, with a key of user 1\n`);
    expect(text).toMatch(
      /\n {2}users {5}pages of 40, sorts kept, date ranges in YYYY-MM-DD .* their last day, .*, 5000 requests a window \(measured 2026-03-11\)\n/,
    );
    expect(text).toMatch(/\n {2}coupons {3}pages of 40, /);
    expect(text).not.toContain('drift');
    const { server, resources, drift } = await json();
    expect(server).toEqual({ address: sandbox.url, key_owner: '1' });
    expect(resources.emails.capabilities).toMatchObject({
      page_size: 40,
      ranges: 'YYYY-MM-DD',
      day_shift_minutes: 'unknown',
      sorts: 'kept',
      rate_limit: { requests: 5_000, seconds: null },
    });
    expect(drift).toEqual([]);
  });

  test('says that ranges and sorts do not work', async () => {
    const { status, json } = await mirrored({ behaviour: { date_ranges: 'error', sorts: 'ignored' } });
    expect(await status()).toMatch(/\n {2}users {5}pages of 100, sorts ignored, no date ranges \(measured /);
    expect((await json()).resources.users.capabilities).toMatchObject({ ranges: null, sorts: 'ignored' });
  });

  test('tells how records depart from the reference, a line a resource and way', async () => {
    const { status, json } = await mirrored({ behaviour: { unknown_fields: 1 } });
    const text = await status();
    expect(text).toMatch(/\ndrift: how records depart from the reference\n/);
    expect(text).toMatch(/\n {2}coupons {3}fields that are not in it, kept in _extra: \w+, \w+/);
    // Told once, and not among the surprises again.
    expect(text).not.toMatch(/surprises/);
    const { drift, events } = await json();
    expect(drift.length).toBeGreaterThan(4);
    expect(events).toEqual(drift.slice(0, 20));
  });

  test('tells of values of another type, fields that did not come, and other surprises apart', async () => {
    const sandbox = await startSandbox();
    sandbox.control.update('users', 5, { balance: 'much', language: undefined });
    sandbox.control.update('users', 6, { first_name: undefined });
    const folder = temporaryFolder();
    const file = join(folder, 'mirror.db');
    await sync(sandbox, file, { pageSize: 100 });
    for (let id = 1; id <= 55; id += 1) sandbox.control.remove('users', id);
    await sync(sandbox, file);
    const { stdout } = await runCli(['status', '--db', 'mirror.db'], { folder });
    expect(stdout).toContain('\n  users     fields that did not come, stored as null: first_name, language\n');
    expect(stdout).toContain(
      '\n  users     values of another type, kept as they came: balance (string served for number)\n',
    );
    expect(stdout).toMatch(/\nsurprises, newest first\n.* users deletions_refused /);
    expect(stdout).not.toMatch(/missing_field/);
  });

  test('of a mirror that has met no server says nothing of one', async () => {
    const sandbox = await startSandbox();
    const folder = temporaryFolder();
    await sandbox.close();
    await sync(sandbox, join(folder, 'mirror.db'));
    const { stdout } = await runCli(['status', '--db', 'mirror.db'], { folder });
    expect(stdout).toMatch(/^fresh as of not read whole yet\n/);
    expect(stdout).not.toMatch(/measured/);
  });
});
