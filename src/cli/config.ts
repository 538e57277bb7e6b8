/** `config`: shows every setting, its value and where it came from. */
import type { Command } from 'commander';
import { policyByName } from '../model/approval.ts';
import { keyOf } from '../settings/server.ts';
import { settingsFrom, type SettingsReading } from '../settings/settings.ts';
import { settingOf } from '../settings/table.ts';
import type { CliContext } from './context.ts';
import { alignedLines, paint, printResult, printWarning } from './output.ts';

export function define(program: Command, context: CliContext): void {
  program
    .command('config')
    .description(
      'Show every setting, its value and where it came from. Shows only the last four characters of the key.',
    )
    .action(() => {
      const reading = withKey(context.reading());
      printResult(context, documentOf(reading), linesOf(context, reading));
      for (const warning of reading.warnings) printWarning(context, warning);
      settingsFrom(reading);
    });
}

/** Adds the key if it is in a file that can be read. */
function withKey(reading: SettingsReading): SettingsReading {
  if (reading.rest.api.key !== undefined) return reading;
  try {
    const found = { value: keyOf(reading.rest).key.toString(), origin: 'the key file' };
    const readings = reading.readings.map((each) => (each.key === 'api.key' ? { ...each, ...found } : each));
    return { ...reading, readings };
  } catch {
    // `doctor` reports what is wrong with it.
    return reading;
  }
}

function documentOf({ readings, approval }: SettingsReading): unknown {
  const settings = readings.map(({ key, value, origin }) => [key, { value, origin, default: settingOf(key).default }]);
  const policies = approval.map(({ subject, policy, origin }) => [
    `bulk.approval.${subject}`,
    { value: policyByName(policy), origin, default: null },
  ]);
  return { settings: Object.fromEntries([...settings, ...policies]) as unknown };
}

function linesOf(context: CliContext, { readings, approval }: SettingsReading): string[] {
  const settings = readings.map(({ key, value, origin }) => [key, String(value ?? '-'), origin] as const);
  const policies = approval.map(({ subject, policy, origin }) => {
    const words = Object.entries(policyByName(policy)).map(([name, value]) => `${name} ${value}`);
    return [`bulk.approval.${subject}`, words.join(', '), origin] as const;
  });
  const dimmed = (origin: string) =>
    origin === 'default' || origin === 'not set' ? paint(context, 'dim', origin) : origin;
  return alignedLines([...settings, ...policies].map(([key, value, origin]) => [key, value, dimmed(origin)]));
}
