/** `status`: how fresh the mirror is, how far it reaches, what happened last, what is wrong. */
import type { Command } from 'commander';
import type { MirrorStatus } from '../mirror/status.ts';
import { onOneLine } from '../model/terminal-text.ts';
import { systemClock, parseInstant } from '../model/time.ts';
import type { MirrorEvent } from '../store/ports/mirror-store.ts';
import { capabilityWords } from './capability-words.ts';
import type { CliContext } from './context.ts';
import { paint, printJson, printLine } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('status')
    .description(
      'Show how fresh the mirror is, the last runs, the worker and its jobs, and what is wrong. Asks files, not the server.',
    )
    .action(async () => {
      const [{ openStatus, openWorkerStatus, withReleases }, { workerLines }] = await Promise.all([
        import('../app.ts'),
        import('./worker-status.ts'),
      ]);
      const settings = context.settings();
      const status = await withReleases((releases) => openStatus(settings, releases));
      const worker = await withReleases((releases) => openWorkerStatus(settings, systemClock, releases));
      const { profile } = settings;
      if (context.json()) return printJson(context, { profile: profile ?? null, ...status, ...worker });
      const head = profile === undefined ? [] : [`profile ${profile}`];
      const lines = [...head, ...linesOf(context, status), ...workerLines(context, worker, freshText)];
      for (const line of lines) printLine(context, line);
    });
}

const number = new Intl.NumberFormat('en-US');

function linesOf(context: CliContext, status: MirrorStatus): string[] {
  const lines = [`fresh as of ${freshText(status.fresh_as_of)}`];
  for (const [name, each] of Object.entries(status.resources)) {
    const open = each.open_problems.length;
    const all = each.windows === 1 ? '1 window' : `${each.windows} windows`;
    const windows = open === 0 ? all : `${open} of ${all} not settled`;
    const keptOut = each.kept_out === 0 ? '' : `, ${number.format(each.kept_out)} kept out (forgotten)`;
    const live = number.format(each.live).padStart(12);
    lines.push(`  ${name.padEnd(9)} ${live}  ${freshText(each.fresh_as_of)}  ${windows}${keptOut}`);
    for (const { from, to, problem } of each.open_problems.filter((window) => window.problem !== null).slice(0, 3)) {
      lines.push(paint(context, 'yellow', `    ${from}..${to}: ${onOneLine(problem ?? '')}`));
    }
  }
  if (status.running !== null) {
    lines.push(
      `a sync is running: process ${status.running.pid} on ${status.running.host}, since ${status.running.acquiredAt}`,
    );
  }
  lines.push(...serverLines(status), '', 'last runs');
  if (status.runs.length === 0) lines.push('  none');
  for (const { run, status: end, started_at, requests } of status.runs) {
    lines.push(`  ${started_at}  ${end.padEnd(11)} ${requests} requests  ${run}`);
  }
  lines.push(...driftLines(status));
  const others = status.events.filter((event) => !status.drift.some((each) => isSame(each, event)));
  if (others.length > 0) lines.push('', 'surprises, newest first');
  for (const { at, resource, kind, subject, detail } of others) {
    lines.push(
      `  ${at}  ${resource ?? ''} ${kind} ${onOneLine(subject)}${detail === null ? '' : `: ${onOneLine(detail.slice(0, 100))}`}`,
    );
  }
  return lines;
}

/** What was measured of the server, list by list. */
function serverLines({ server, resources }: MirrorStatus): string[] {
  const lists = Object.entries(resources).flatMap(([name, { capabilities }]) =>
    capabilities === null
      ? []
      : [`  ${name.padEnd(9)} ${capabilityWords(capabilities)} (measured ${capabilities.measured_at.slice(0, 10)})`],
  );
  if (server === null && lists.length === 0) return [];
  const owner = server?.key_owner ? `, with a key of user ${server.key_owner}` : '';
  return ['', `the server ${server === null ? '' : `at ${server.address}${owner}`}`.trimEnd(), ...lists];
}

const driftWords: Readonly<Record<string, string>> = {
  unknown_field: 'fields that are not in it, kept in _extra',
  missing_field: 'fields that did not come, stored as null',
  changed_type: 'values of another type, kept as they came',
  relation_absent: 'related records that did not come',
};

/** How records depart from the reference: a line a resource and way, with the fields. */
function driftLines({ drift }: MirrorStatus): string[] {
  if (drift.length === 0) return [];
  const lines = new Map<string, string[]>();
  for (const { resource, kind, subject, detail } of drift) {
    const line = `  ${(resource ?? '').padEnd(9)} ${driftWords[kind] ?? kind}`;
    const [what = ''] = (detail ?? '').split(';');
    const fields = lines.get(line) ?? [];
    fields.push(kind === 'changed_type' ? `${subject} (${what})` : subject);
    lines.set(line, fields);
  }
  const inOrder = [...lines].sort(([a], [b]) => a.localeCompare(b));
  return [
    '',
    'drift: how records depart from the reference',
    ...inOrder.map(([line, fields]) => `${line}: ${onOneLine(fields.sort().join(', '))}`),
  ];
}

function isSame(a: MirrorEvent, b: MirrorEvent): boolean {
  return a.kind === b.kind && a.subject === b.subject && a.resource === b.resource;
}

/** `2026-11-21T02:15:00.000000Z (3 hours ago)`. */
function freshText(at: string | null): string {
  const instant = parseInstant(at);
  if (at === null || instant === undefined) return 'not read whole yet';
  const minutes = Math.round((systemClock.now() - instant) / 60_000);
  const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });
  if (Math.abs(minutes) < 120) return `${at} (${relative.format(-minutes, 'minute')})`;
  if (Math.abs(minutes) < 48 * 60) return `${at} (${relative.format(-Math.round(minutes / 60), 'hour')})`;
  return `${at} (${relative.format(-Math.round(minutes / 1440), 'day')})`;
}
