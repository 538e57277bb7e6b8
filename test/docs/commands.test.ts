import { spawnSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { documentNames } from '../support/documents.ts';
import { freePort } from '../support/free-port.ts';
import { systemClock } from '../../src/model/time.ts';
import { temporaryDatabase } from '../support/postgres.ts';
import { startSandbox } from '../support/sandbox.ts';
import { makeClone, runShell, type ShellCommand, shellCommands } from '../support/shell-blocks.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** The port that the documents use for a sandbox. The tests use a free one. */
const shownPort = '8123';

/** Tools that a reader may have, and how to check for each. Commands of missing tools are skipped. */
const tools = { sqlite3: ['--version'], curl: ['--version'], python3: ['-c', 'import pandas'] };
const missingTools = Object.entries(tools).flatMap(([tool, args]) =>
  spawnSync(tool, args).status === 0 ? [] : [tool],
);

function isRunnable({ text }: ShellCommand): boolean {
  return !missingTools.some((tool) => text.startsWith(`${tool} `));
}

const documents = documentNames.filter((name) => shellCommands(name).length > 0);

describe('the commands in', () => {
  test.each(documents)('%s work one after the other', { timeout: 300_000, tags: 'full' }, async (document) => {
    const port = String(await freePort());
    const commands = shellCommands(document)
      .filter(isRunnable)
      .map((each) => ({ ...each, text: each.text.replaceAll(shownPort, port) }));
    // README starts its own server; other documents assume one.
    const sandbox =
      document === 'README.md' ? undefined : await startSandbox({ users: 200, now: () => systemClock.now() });
    const server =
      sandbox === undefined ? {} : { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
    const database = document === 'docs/publish.md' ? await temporaryDatabase() : undefined;
    const publishing =
      database === undefined
        ? {}
        : {
            ADMIN_MIRROR_PUBLISH_URL: database.url,
            ADMIN_MIRROR_PUBLISH_PASSWORD: database.password,
          };
    const folder = temporaryFolder();
    const { ran, output, missing } = await runShell(commands, folder, {
      ...makeClone(folder),
      ...server,
      ...publishing,
    });
    // A failure shows the output.
    const wanted = { ran: commands.map(({ place }) => place), output: expect.any(String), missing: [] };
    expect({ ran, output, missing }).toEqual(wanted);
  });

  test('README.md begin with the demo', () => {
    expect(shellCommands('README.md')[0]?.text).toBe('npm run demo');
  });
});
