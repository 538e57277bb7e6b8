/** `status`: how fresh the mirror is, how far it reaches, what happened last, what is wrong. */
import type { Command } from 'commander';
import type { MirrorStatus } from '../mirror/status.ts';
import { systemClock, parseInstant } from '../model/time.ts';
import type { CliContext } from './context.ts';
import { paint, printJson, printLine } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('status')
    .description('Show how fresh the mirror is, the last runs and what is wrong. Asks the mirror file, not the server.')
    .action(async () => {
      const { openStatus, withReleases } = await import('../app.ts');
      const status = await withReleases((releases) => openStatus(context.settings(), releases));
      if (context.json()) printJson(context, status);
      else for (const line of linesOf(context, status)) printLine(context, line);
    });
}

const number = new Intl.NumberFormat('en-US');

function linesOf(context: CliContext, status: MirrorStatus): string[] {
  const lines = [`fresh as of ${freshText(status.fresh_as_of)}`];
  for (const [name, each] of Object.entries(status.resources)) {
    const open = each.open_problems.length;
    const windows = open === 0 ? `${each.windows} windows` : `${open} of ${each.windows} windows not settled`;
    lines.push(
      `  ${name.padEnd(9)} ${number.format(each.live).padStart(12)}  ${freshText(each.fresh_as_of)}  ${windows}`,
    );
    for (const { from, to, problem } of each.open_problems.filter((window) => window.problem !== null).slice(0, 3)) {
      lines.push(paint(context, 'yellow', `    ${from}..${to}: ${problem ?? ''}`));
    }
  }
  if (status.running !== null) {
    lines.push(
      `a sync is running: process ${status.running.pid} on ${status.running.host}, since ${status.running.acquiredAt}`,
    );
  }
  lines.push('', 'last runs');
  if (status.runs.length === 0) lines.push('  none');
  for (const { run, status: end, started_at, requests } of status.runs) {
    lines.push(`  ${started_at}  ${end.padEnd(11)} ${requests} requests  ${run}`);
  }
  if (status.events.length > 0) lines.push('', 'surprises, newest first');
  for (const { at, resource, kind, subject, detail } of status.events) {
    lines.push(`  ${at}  ${resource ?? ''} ${kind} ${subject}${detail === null ? '' : `: ${detail.slice(0, 100)}`}`);
  }
  return lines;
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
