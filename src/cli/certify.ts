/** `certify`: writes a signed statement of what a complete mirror holds, checks one, or compares two. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { type CertificateHead, certificateOf } from '../data/certificate.ts';
import { checkCertificate, compareCertificates, type DifferingWindow, wordsOf } from '../data/check-certificate.ts';
import { openMirrorToCheck } from '../data/open.ts';
import { keyFiles } from '../journal/signing-key.ts';
import { openCertifying } from '../mirror/open.ts';
import { counted, grouped, onOneLine } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { systemClock } from '../model/time.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import { checkingKey, printCheck, signingKey } from './bulk/receipt.ts';
import type { CliContext } from './context.ts';
import { namedOf, resourcesArgument, toCount } from './flag-values.ts';
import { printJson, printLine, printResult } from './output.ts';
import { pathOfFile, refuseOwnFiles, removeOlder, targetOf } from './files.ts';

interface Flags {
  readonly output?: string;
  readonly keep?: number;
  readonly check?: string;
  readonly compare?: readonly string[];
  readonly key?: string;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('certify')
    .description(
      'Write a certificate: one signed file with, for each window of the mirror, its days, its number of records, when they were ' +
        'read and a hash over them. If the mirror is not complete, it writes nothing and ends with 5. Sends no request.',
    )
    .addArgument(resourcesArgument('certify'))
    .option('-o, --output <file>', 'the file; {date} and {time} stand for now (default: certificate-{date}.json)')
    .option('--keep <n>', 'keep the newest <n> files of this name with {date}; remove older ones', toCount)
    .addOption(
      new Option(
        '--check <file>',
        'check the signature of a certificate, and compare the mirror, or the copy that --db names, with it; ends with 6 if something ' +
          'differs, 5 if the mirror cannot be compared',
      ).conflicts(['output', 'keep', 'compare']),
    )
    .addOption(
      new Option('--compare <files...>', 'show on which days the rows of two certificates differ').conflicts([
        'output',
        'keep',
      ]),
    )
    .option('--key <file>', 'with --check or --compare: the public key (default: receipt.pub beside the journal)')
    .addHelpText(
      'after',
      `
What a certificate proves, what it does not, and what it reveals: docs/proof.md.

Examples:
  admin-mirror certify
  admin-mirror certify users -o certificates/users-{date}.json --keep 400
  admin-mirror certify --check certificate-2026-03-11.json
  admin-mirror certify --check certificate-2026-03-11.json --db snapshot.db
  admin-mirror certify --compare certificate-2026-03-11.json certificate-2026-03-12.json`,
    )
    .action(async (resources: readonly ResourceName[], flags: Flags) => {
      if (flags.check === undefined && flags.compare === undefined) {
        if (flags.key !== undefined) {
          throw new UsageError('--key needs --check or --compare', {
            advice: 'Name a certificate with --check or --compare, or leave --key out.',
          });
        }
        return write(context, namedOf(resources), flags);
      }
      if (resources.length > 0) {
        throw new UsageError(`a certificate is always checked as a whole, but "${resources.join(' ')}" was named`, {
          advice: 'Leave it out.',
        });
      }
      await (flags.check === undefined
        ? compare(context, flags.compare ?? [], flags)
        : check(context, flags.check, flags));
    });
}

async function write(
  context: CliContext,
  resources: readonly ResourceName[],
  { output = 'certificate-{date}.json', keep }: Flags,
): Promise<void> {
  const settings = context.settings();
  pathOfFile(context, output);
  const target = targetOf(context, output, keep);
  refuseOwnFiles(context, target.path);
  const { signal } = context;
  const { record, ...mirror } = openCertifying({ settings, clock: systemClock }, context.releases);
  const key = signingKey(context, settings.store.journal);
  const made = await certificateOf({ ...mirror, key, clock: systemClock, signal }, resources);
  const bytes = await writeDurableFile(target.path, made.bytes, signal);
  const { head } = made;
  record({ root: head.root, written_at: head.written_at, resources });
  const older = await removeOlder(context, target, 'files');
  const publicKey = keyFiles(settings.store.journal).checking;
  const document = { file: target.path, bytes, windows: made.windows.length, ...head, public_key: publicKey, ...older };
  const line = `${target.shown}  ${counted(bytes, 'byte')}; check it with ${publicKey}`;
  printResult(context, document, [...linesOf(head), line]);
}

function linesOf({ root, resources, fresh_as_of: fresh, key_id: key }: CertificateHead): string[] {
  const lines = resourceNames.flatMap((name) => {
    const part = resources[name];
    if (part === undefined) return [];
    const size = `${counted(part.rows, 'row')} in ${counted(part.windows, 'window')}`;
    return [`${name.padEnd(9)} ${size}, complete by ${onOneLine(part.run)}`];
  });
  return [
    ...lines,
    `fresh     as of ${onOneLine(fresh ?? 'no time')}`,
    `root      ${onOneLine(root)}`,
    `key       ${onOneLine(key)}`,
  ];
}

async function check(context: CliContext, file: string, { key: keyFile }: Flags): Promise<void> {
  const key = checkingKey(context, keyFile);
  const database = openMirrorToCheck(context.settings(), context.releases);
  const found = await checkCertificate(resolve(context.folder, file), key, database, context.signal);
  const { status, head, problems, mirror, not_compared } = found;
  const differs = status === 'refused' || mirror?.status === 'different';
  if (differs) context.exit(6);
  else if (mirror === null && database !== undefined) context.exit(5);
  if (context.json()) {
    const about = head && { written_at: head.written_at, root: head.root, resources: head.resources };
    return printJson(context, { status, file, key_id: key.id, ...about, problems, mirror, not_compared });
  }
  const differing = [...problems, ...(mirror?.problems ?? []), ...(mirror?.windows ?? []).map(differenceText)];
  printCheck(context, { status, file, problems: differing }, head === null ? [] : linesOf(head));
  if (mirror === null) return printLine(context, `mirror    not compared: ${not_compared}`);
  const again = mirror.read_again ? '; it was read again since then, so what changed on the server differs' : '';
  printLine(context, `mirror    ${mirror.status === 'same' ? 'holds the same rows' : `is different${again}`}`);
}

async function compare(context: CliContext, files: readonly string[], { key: keyFile }: Flags): Promise<void> {
  const [first, second, third] = files.map((file) => resolve(context.folder, file));
  if (first === undefined || second === undefined || third !== undefined) {
    throw new UsageError(`--compare takes two certificates, not ${files.length}`);
  }
  const found = await compareCertificates([first, second], checkingKey(context, keyFile), context.signal);
  if (found.not_compared.length > 0) context.exit(5);
  if (context.json()) return printJson(context, found);
  const { older, newer, windows } = found;
  for (const each of windows) printLine(context, onOneLine(differenceText(each)));
  for (const each of found.not_compared) printLine(context, `not compared: ${onOneLine(each)}`);
  const what = windows.length === 0 ? 'the same rows' : `rows differ in ${counted(windows.length, 'window')}`;
  printLine(context, `${onOneLine(older.written_at)} to ${onOneLine(newer.written_at)}: ${what}`);
}

/** How many days of a window to name. --json has all. */
const shownDays = 8;

/** `users 2026-03-01..2026-04-01: 2026-03-11 (12 rows, then 13), 2026-03-14 (9 rows, changed)`. */
function differenceText(window: DifferingWindow): string {
  const days = window.days.slice(0, shownDays).map(({ day, before, now }) => {
    const rows =
      before === now
        ? `${counted(before ?? 0, 'row')}, changed`
        : `${grouped(before ?? 0)} rows, then ${grouped(now ?? 0)}`;
    return `${day} (${rows})`;
  });
  const more = window.days.length - shownDays;
  return `${wordsOf(window)}: ${days.join(', ')}${more > 0 ? `, and ${counted(more, 'more day')}` : ''}`;
}
