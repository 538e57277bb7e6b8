import { PassThrough } from 'node:stream';
import { describe, expect, test } from 'vitest';
import { createContext, type CliContext } from '../../src/cli/context.ts';
import { openLog } from '../../src/cli/logger.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function worldWith(isTTY: boolean, flags: Record<string, boolean> = {}) {
  const stderr = Object.assign(new PassThrough(), { isTTY }) as unknown as NodeJS.WriteStream & PassThrough;
  const context: CliContext = createContext(
    {
      stdout: stderr,
      stderr,
      stdin: () => stderr as unknown as NodeJS.ReadStream,
      signal: AbortSignal.abort(),
      environment: {},
      folder: temporaryFolder(),
    },
    () => flags,
  );
  return { context, text: () => String(stderr.read() ?? '') };
}

describe('the log', () => {
  test('is one JSON object per line unless standard error is a terminal', async () => {
    const { context, text } = worldWith(false);
    const log = await openLog(context);
    log.info({ resource: 'users', page: 3 }, 'page read');
    log.warn({}, 'slow');
    const lines = text()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toEqual([
      { level: 'info', time: expect.stringMatching(/^\d{4}-.*Z$/), resource: 'users', page: 3, msg: 'page read' },
      { level: 'warn', time: expect.any(String), msg: 'slow' },
    ]);
  });

  test('is readable text on a terminal', async () => {
    const { context, text } = worldWith(true, { color: false });
    (await openLog(context)).info({ page: 3 }, 'page read');
    expect(text()).toMatch(/INFO.*page read/);
  });

  test('has fewer lines with --quiet and more with --verbose', async () => {
    const said = async (flags: Record<string, boolean>) => {
      const { context, text } = worldWith(false, flags);
      const log = await openLog(context);
      log.debug({}, 'a');
      log.info({}, 'b');
      log.error({}, 'c');
      return [...text().matchAll(/"msg":"(.)"/g)].map((match) => match[1]).join('');
    };
    expect(await said({})).toBe('bc');
    expect(await said({ quiet: true })).toBe('c');
    expect(await said({ verbose: true })).toBe('abc');
  });
});
