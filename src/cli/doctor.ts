/** `doctor`: looks at everything that a first run needs, and finds every problem in one go. */
import type { Command } from 'commander';
import { silentLog } from '../model/log.ts';
import { systemClock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { keyOf } from '../settings/server.ts';
import type { CliContext } from './context.ts';
import { type Check, skipped } from './doctor/check.ts';
import type { FileToCheck } from './doctor/file-checks.ts';
import { paint, printJson, printLine } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('doctor')
    .description(
      'Check settings, key, server, mirror and journal; say what is wrong and where to set it. Changes nothing.\n' +
        'Ends with 0, or with the code of the first failed check: 2 settings or files, 3 key, 4 server.',
    )
    .action(async () => {
      const checks = await examine(context);
      if (context.json()) printJson(context, answerOf(checks));
      else for (const line of linesOf(context, checks)) printLine(context, line);
      context.exit(checks.find((each) => each.state === 'fail')?.exitCode ?? 0);
    });
}

async function examine(context: CliContext): Promise<Check[]> {
  const [about, { checkFile }] = await Promise.all([
    import('./doctor/settings-checks.ts'),
    import('./doctor/file-checks.ts'),
  ]);
  const reading = context.reading();
  const first = [about.checkNode(), ...about.checkSettings(reading, context.folder)];
  const settings = reading.rest;
  return [
    ...first,
    ...about.checkAddress(reading, settings),
    ...about.checkKey(reading, settings),
    ...(await examineServer(context, settings)),
    ...(await Promise.all((await filesOf(settings)).map(checkFile))).flat(),
  ];
}

async function examineServer(context: CliContext, settings: Settings): Promise<Check[]> {
  const { baseUrl, timeoutMs } = settings.api;
  if (baseUrl === undefined) return [skipped('server', 'there is no base address to ask')];
  const [{ checkServer }, { checkLists }, { openApi, withReleases }] = await Promise.all([
    import('./doctor/server-checks.ts'),
    import('./doctor/list-checks.ts'),
    import('../app.ts'),
  ]);
  const { signal } = context;
  const key = keyOrNone(settings);
  const { checks, usable } = await checkServer({ baseUrl, key, timeoutMs, clock: systemClock, signal });
  if (!usable) return [...checks, skipped('lists', 'the server and the key must be right first')];
  const lists = await withReleases(async (releases) =>
    checkLists(
      await openApi({ settings, log: silentLog, clock: systemClock }, releases),
      settings.api.pageSize,
      signal,
    ),
  );
  return [...checks, ...lists];
}

function keyOrNone(settings: Settings) {
  try {
    return keyOf(settings).key;
  } catch {
    // What is wrong with it has a check of its own.
    return undefined;
  }
}

async function filesOf(settings: Settings): Promise<FileToCheck[]> {
  const { openReading, withReleases } = await import('../app.ts');
  return [
    {
      name: 'mirror',
      path: settings.store.mirror,
      places: '--db, ADMIN_MIRROR_DB or store.mirror',
      madeBy: '`sync`',
      open: () =>
        withReleases(async (releases) => {
          (await openReading(settings, releases)).snapshot().release();
        }),
    },
    {
      name: 'journal',
      path: settings.store.journal,
      places: '--journal, ADMIN_MIRROR_JOURNAL or store.journal',
      madeBy: 'bulk run',
    },
  ];
}

function answerOf(checks: readonly Check[]) {
  return {
    ok: checks.every((each) => each.state !== 'fail'),
    checks: checks.map(({ name, state, finding, advice }) => ({ name, state, finding, advice: advice ?? null })),
  };
}

const styles = { ok: 'green', warn: 'yellow', fail: 'red', skipped: 'dim' } as const;

function linesOf(context: CliContext, checks: readonly Check[]): string[] {
  const width = Math.max(...checks.map((each) => each.name.length));
  const lines = checks.flatMap(({ name, state, finding, advice }) => [
    `${paint(context, styles[state], state.padEnd(7))}  ${name.padEnd(width)}  ${finding}`,
    ...(advice === undefined ? [] : [`${' '.repeat(width + 11)}${advice}`]),
  ]);
  const count = (state: Check['state']) => checks.filter((each) => each.state === state).length;
  const problems = count('fail');
  return [
    ...lines,
    '',
    `${problems === 0 ? 'nothing is' : `${problems} of ${checks.length} checks are`} wrong` +
      (count('warn') > 0 ? `, ${count('warn')} to look at` : ''),
  ];
}
