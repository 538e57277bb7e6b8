/** `config`: every setting, its value and where it came from. */
import type { Command } from 'commander';
import { settingsFrom, type SettingReading } from '../settings/settings.ts';
import type { CliContext } from './context.ts';
import { paint, printJson, printLine, printWarning } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('config')
    .description('Show every setting, its value and where it came from. The key is shown by its last four characters.')
    .action(() => {
      const reading = context.reading();
      if (context.json()) printJson(context, documentOf(reading.readings));
      else for (const line of linesOf(context, reading.readings)) printLine(context, line);
      for (const warning of reading.warnings) printWarning(context, warning);
      settingsFrom(reading);
    });
}

function documentOf(readings: readonly SettingReading[]): unknown {
  return {
    settings: Object.fromEntries(
      readings.map(({ setting, value, origin }) => [setting.key, { value, origin, default: setting.default }]),
    ),
  };
}

function linesOf(context: CliContext, readings: readonly SettingReading[]): string[] {
  const rows = readings.map(({ setting, value, origin }) => [setting.key, String(value ?? '-'), origin] as const);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => (row[column] ?? '').length)));
  return rows.map(([key, value, origin]) => {
    const shown = origin === 'default' || origin === 'not set' ? paint(context, 'dim', origin) : origin;
    return `${key.padEnd(widths[0] ?? 0)}  ${value.padEnd(widths[1] ?? 0)}  ${shown}`;
  });
}
