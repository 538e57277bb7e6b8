/**
 * Commands in messages, as they can be pasted where the message stands: with `npx` in a clone, and with the flags that say
 * which settings, server and files this command was about.
 */
import { quoted } from '../model/job.ts';
import { commandName } from '../model/version.ts';
import { valueOf } from '../settings/settings.ts';
import { commands } from './commands.ts';
import type { CliContext } from './context.ts';

const kept = ['config', 'profile', 'api.base_url', 'api.insecure_http', 'store.mirror', 'store.journal'] as const;

const names = [...commands.map(({ name }) => name), 'help'].join('|');
const mention = new RegExp(String.raw`(?:npx )?\badmin-mirror (?=(?:${names})\b)`, 'g');

/** How a command begins that is to do as this one does. */
function commandStart(context: Pick<CliContext, 'reading'>): string {
  const reading = context.reading();
  const flags = kept.flatMap((key) => {
    const { setting, value, origin } = valueOf(reading, key);
    const [flag, argument] = setting.flag?.split(' ') ?? [];
    // A profile of a variable may not be there where the command is pasted.
    const isNeeded = origin.startsWith('flag ') || (key === 'profile' && reading.rest.profile !== undefined);
    if (flag === undefined || !isNeeded) return [];
    return argument === undefined ? [flag] : [flag, quoted(String(value))];
  });
  return [commandName, ...flags].join(' ');
}

/** The text with each command in it, such as `admin-mirror sync`, as it can be pasted. */
export function pasteable(context: Pick<CliContext, 'reading'>, text: string): string {
  // Reading the settings takes a moment, and most lines name no command.
  return text.search(mention) === -1 ? text : text.replaceAll(mention, () => `${commandStart(context)} `);
}
