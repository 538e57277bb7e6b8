/** `snapshot`: a consistent copy of the mirror, while the worker writes. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { UsageError } from '../model/errors.ts';
import type { CopyContents } from '../data/copy-types.ts';
import type { CliContext } from './context.ts';
import { printJson, printLine } from './output.ts';
import { refuseOwnFiles } from './own-files.ts';

interface Flags {
  readonly anonymise?: true;
  readonly pseudonymKey?: string;
  readonly keepFields?: string;
  readonly check?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('snapshot')
    .description(
      'Copy the mirror as it is now, also while a sync writes to it. The copy appears whole or not at all, is a mirror ' +
        'file like any other, and replaces nothing but an earlier copy.',
    )
    .argument('<file>', 'the copy')
    .option(
      '--anonymise',
      'pseudonyms in the place of names, addresses, messages and whatever is not known to tell of nobody',
    )
    .option(
      '--pseudonym-key <file>',
      'a file from which the pseudonyms follow, for the same ones each time (default: a new secret that is not kept)',
    )
    .option('--keep-fields <names>', 'fields that tell of nobody, to be kept as they are: vat_rate,plan')
    .option('--check', 'look at every row and index of the copy, which takes as long again')
    .addHelpText(
      'after',
      `
Ids, amounts, dates and states stay in an anonymised copy, and the same text gives the same pseudonym in every table.
Without --pseudonym-key nobody, the maker included, can tell later whose a pseudonym is.

Examples:
  admin-mirror snapshot copy.db
  admin-mirror snapshot for-the-agency.db --anonymise
  admin-mirror status --db copy.db`,
    )
    .action((file: string, flags: Flags) => run(context, file, flags));
}

async function run(context: CliContext, file: string, flags: Flags): Promise<void> {
  const settings = context.settings();
  const path = resolve(context.folder, file);
  refuseOwnFiles(path, settings);
  const pseudonyms = await pseudonymsOf(context, flags);
  const [{ openMirrorToCopy }, { makeSnapshot }, { openShareWatch }] = await Promise.all([
    import('../app.ts'),
    import('../data/snapshot.ts'),
    import('./share-watch.ts'),
  ]);
  const mirror = await openMirrorToCopy(settings);
  const watch = openShareWatch(context, 'copying');
  const copyRun = { signal: context.signal, progress: watch.progress };
  const thoroughness = flags.check ? 'whole' : 'opened';
  const contents = await makeSnapshot(mirror, path, { pseudonyms, thoroughness }, copyRun).finally(watch.close);
  const anonymised = pseudonyms !== undefined;
  if (context.json()) printJson(context, { file: path, anonymised, ...contents });
  else for (const line of await linesOf(file, anonymised, contents)) printLine(context, line);
}

async function pseudonymsOf(context: CliContext, flags: Flags) {
  if (flags.anonymise === undefined) {
    const other = flags.pseudonymKey === undefined ? flags.keepFields && '--keep-fields' : '--pseudonym-key';
    if (other === undefined) return undefined;
    throw new UsageError(`${other} is for copies with pseudonyms`, { advice: 'Add --anonymise.' });
  }
  const [{ anonymiser }, { namesOfFlag, readPseudonymKey }] = await Promise.all([
    import('../data/anonymise.ts'),
    import('./pseudonym-key.ts'),
  ]);
  const kept = flags.keepFields === undefined ? [] : namesOfFlag('--keep-fields', flags.keepFields);
  return anonymiser(readPseudonymKey(context.folder, flags.pseudonymKey), kept);
}

async function linesOf(file: string, anonymised: boolean, contents: CopyContents): Promise<string[]> {
  const { bytesText } = await import('../model/bytes.ts');
  const rows = Object.entries(contents.resources).map(([name, each]) => `${each.rows.toLocaleString('en')} ${name}`);
  return [
    `${file}: ${bytesText(contents.bytes)}, ${rows.join(', ')}${anonymised ? ', anonymised' : ''}`,
    `fresh as of ${contents.fresh_as_of ?? 'no time: a resource was never read whole'}`,
  ];
}
