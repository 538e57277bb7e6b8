/** `doctor`: checks everything that a first run needs, and reports all problems at once. */
import type { Command } from 'commander';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import type { Profile } from '../mirror/profile.ts';
import { addAllFlags, type AllFlags, runForAll } from './all.ts';
import type { CliContext } from './context.ts';
import { type Check, checkLines, failed, ok, skipped, warn } from './doctor/check.ts';
import * as about from './doctor/local-checks.ts';
import type { FileToCheck } from './doctor/local-checks.ts';
import { checkNights } from './doctor/night-checks.ts';
import { tryServer } from './doctor/server-checks.ts';
import { pasteable, printResult } from './output.ts';
import { openReading } from '../data/open.ts';
import { rightJournalAdvice } from '../bulk/journal-memory.ts';
import { openJournalDoubt } from '../bulk/open.ts';
import { openJournalForReading } from '../journal/open.ts';
import { journalKind } from '../journal/schema.ts';
import { openProbeRecord } from '../mirror/open.ts';
import { type CapabilityStatus, openCapabilities } from '../mirror/open-status.ts';
import { counted } from '../model/text.ts';
import { FileError, LockHeldError } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import type { ResourceName } from '../model/resources.ts';
import { systemClock } from '../model/time.ts';
import { networkOf, keyOf } from '../settings/server.ts';
import type { Settings } from '../settings/settings.ts';
import { mirrorKind } from '../store/open.ts';

interface Flags extends AllFlags {
  readonly probe?: true;
}

interface Findings {
  readonly checks: readonly Check[];
  readonly capabilities: Readonly<Partial<Record<ResourceName, CapabilityStatus>>>;
}

export function define(program: Command, context: CliContext): void {
  const command = program
    .command('doctor')
    .description(
      'Check settings, key, proxy, certificates, server, mirror, journal, approvers, reports, jobs, alerts, log and disk. Show what ' +
        'is wrong and where to set it. Sends no alert and no ping. Changes nothing, except that --probe records in the mirror ' +
        'what the server can do.\n' +
        'Ends with 0, or with the code of the first failed check: 2 settings or files, 3 key, 4 server.',
    )
    .option('--probe', 'measure again what the server can do, and record it in the mirror');
  addAllFlags(command).action(async (flags: Flags) => {
    if (flags.all) return runForAll(context, command, failureWords);
    const { checks, capabilities } = await examine(context, flags.probe ?? false);
    const profile = context.reading().rest.profile ?? null;
    const document = { profile, ...documentOf(context, checks), capabilities };
    printResult(context, document, linesOf(context, checks));
    context.exit(checks.find((each) => each.state === 'fail')?.exitCode ?? 0);
  });
}

function failureWords(report: unknown): string {
  const { checks } = report as ReturnType<typeof documentOf>;
  const failed = checks.filter(({ state }) => state === 'fail');
  return failed.map(({ name, finding }) => `${name}: ${finding}`).join('; ');
}

async function examine(context: CliContext, probe: boolean): Promise<Findings> {
  const reading = context.reading();
  const settings = reading.rest;
  const server = await examineServer(context, settings, probe);
  const checks = [
    ok('node', process.versions.node),
    ...about.checkSettings(reading, context.folder),
    ...(await about.checkAccess(reading, settings)),
    ...server.checks,
    ...(await Promise.all(filesOf(settings).map(about.checkFile))).flat(),
    ...(settings.store.shared === undefined ? [] : await about.checkSharedStore(settings)),
    ...(await about.checkApproval(settings)),
    ...(await about.checkReports(settings)),
    ...(await checkNights(context, settings, orNone(() => networkOf(settings)) ?? {})),
  ];
  return { checks, capabilities: server.capabilities };
}

async function examineServer(context: CliContext, settings: Settings, probe: boolean): Promise<Findings> {
  const { baseUrl } = settings.api;
  if (baseUrl === undefined) return { checks: [skipped('server', 'there is no base address')], capabilities: {} };
  const key = orNone(() => keyOf(settings).key);
  const network = orNone(() => networkOf(settings)) ?? {};
  const stored = probe ? undefined : capabilitiesOnRecord(settings, context.releases);
  const tried = await tryServer(context, settings, { baseUrl, key, network }, stored);
  const { checks, usable, capabilities, measured } = tried;
  if (!usable) {
    return { checks: [...checks, skipped('lists', 'the server and the key must be right first')], capabilities };
  }
  return { checks: [...checks, ...(probe ? await recordMeasured(settings, measured) : [])], capabilities };
}

/** Returns undefined if reading fails: another check reports what is wrong with the key or the certificates. */
function orNone<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}

function filesOf(settings: Settings): FileToCheck[] {
  const { store } = settings;
  const mirror: FileToCheck = {
    kind: mirrorKind,
    path: store.mirror,
    madeBy: '`sync`',
    open: () => withReleases((releases) => openReading(settings, releases).snapshot().release()),
  };
  const journal: FileToCheck = {
    kind: journalKind,
    path: store.journal,
    madeBy: '`bulk plan`',
    open: () => withReleases((releases) => openJournalForReading(settings, systemClock, releases)),
    expect: async () => {
      const doubt = await openJournalDoubt(settings, systemClock);
      if (doubt !== null) throw new FileError(doubt, { advice: rightJournalAdvice });
    },
  };
  // A shared store has a check of its own.
  return store.shared === undefined ? [mirror, journal] : [mirror];
}

function documentOf(context: CliContext, checks: readonly Check[]) {
  return {
    ok: checks.every((each) => each.state !== 'fail'),
    checks: checks.map(({ name, state, finding, advice }) => ({
      name,
      state,
      finding: pasteable(context, finding),
      advice: advice === undefined ? null : pasteable(context, advice),
    })),
  };
}

function linesOf(context: CliContext, checks: readonly Check[]): string[] {
  const lines = checkLines(context, checks, context.stdout);
  const count = (state: Check['state']) => checks.filter((each) => each.state === state).length;
  const verdict =
    count('fail') === 0 ? 'nothing is wrong' : `${count('fail')} of ${counted(checks.length, 'check')} failed`;
  const rest = count('warn') > 0 ? `, ${count('warn')} to look at` : '';
  return [...lines, '', `${verdict}${rest}`];
}

/** Returns what the mirror has on record about each list; null for each if there is no readable mirror. */
function capabilitiesOnRecord(
  settings: Settings,
  releases: Releases,
): (resource: ResourceName) => CapabilityStatus | null {
  try {
    return openCapabilities(settings, releases);
  } catch (error) {
    // Another check reports what is wrong with the file.
    if (error instanceof FileError) return () => null;
    throw error;
  }
}

/** Records the measurements in the mirror, if there is one, and reports that. */
async function recordMeasured(settings: Settings, measured: ReadonlyMap<ResourceName, Profile>): Promise<Check[]> {
  const name = 'capabilities';
  if (!existsSync(settings.store.mirror)) {
    return [ok(name, 'measured, but not recorded: there is no mirror yet; the first sync measures them itself')];
  }
  return withReleases(async (releases) => {
    try {
      const record = openProbeRecord({ settings, clock: systemClock }, releases);
      const again = record(`doctor-${randomUUID().slice(0, 8)}`, measured);
      const note =
        again.length === 0
          ? ''
          : `; date ranges work differently than before, so the next sync reads all ${again.join(', ')}`;
      return [ok(name, `measured, and recorded for ${[...measured.keys()].join(', ')}${note}`)];
    } catch (error) {
      // Another check reports what is wrong with the file.
      if (error instanceof FileError)
        return [skipped(name, 'measured, but not recorded: the mirror must be right first')];
      if (error instanceof LockHeldError) return [warn(name, `not recorded: ${error.message}`, error.advice)];
      return [failed(name, error)];
    }
  });
}
