/** `serve`: serves the console until it is stopped. */
import type { Command } from 'commander';
import { UsageError } from '../model/errors.ts';
import { readValue, type Settings } from '../settings/settings.ts';
import type { FirstAccount } from '../web/open.ts';
import type { ConsoleAddress } from '../web/app.ts';
import { type CliContext, waitForStop } from './context.ts';
import { openSurroundings } from './logger.ts';
import { printResult } from './output.ts';

interface Flags {
  readonly listen?: string;
  readonly readOnly?: true;
}

export function define(program: Command, context: CliContext): void {
  program
    .command('serve')
    .description(
      'Serve the console: the mirror, runs, reports, batches, approvals and accounts in a browser. It has the same rules, ' +
        'locks and records as the command line. Ctrl+C or SIGTERM stops it.',
    )
    .option('--listen <address>', 'where to listen, such as 127.0.0.1:8080')
    .option('--read-only', 'show everything and change nothing')
    .action((flags: Flags) => serve(context, flags));
}

async function serve(context: CliContext, flags: Flags): Promise<void> {
  const { openConsole } = await import('../web/open.ts');
  const settings = context.settings();
  const address = addressOf(settings, flags);
  const actor = context.actor();
  const surroundings = openSurroundings(context);
  const { redact, keepSecret, folder, environment } = context;
  const servers = context.serversOfConfig();
  const commands = { folder, environment, settings: { reading: context.reading(), servers } };
  const options = { address, actor, redact, keepSecret, commands, servers };
  const { url, first } = await openConsole(surroundings, options, context.releases);
  announce(context, address.behindProxy?.href.replace(/\/$/, '') ?? url, first);
  const interruption = await waitForStop(context);
  // SIGTERM is the normal end of a service, so it ends with 0.
  if (interruption?.exitCode === 130) context.exit(130);
}

function addressOf({ serve: { listen, behindProxy, tls } }: Settings, flags: Flags): ConsoleAddress {
  const { host, port } = listenFlag(flags.listen) ?? listen ?? nowhere();
  const [certificate, key = certificate] = tls ?? [];
  return {
    host,
    port,
    tls: certificate === undefined || key === undefined ? null : { certificate, key },
    behindProxy: behindProxy === undefined ? null : new URL(behindProxy),
    isReadOnly: flags.readOnly === true,
  };
}

function nowhere(): never {
  throw new UsageError('serve.listen is off', { advice: 'Give the address to listen on with --listen.' });
}

/** Parses the flag by the rules of its setting. */
function listenFlag(text: string | undefined) {
  if (text === undefined) return undefined;
  const read = readValue('serve.listen', text);
  if (read === undefined) throw new UsageError(`--listen is ${JSON.stringify(text)}, which is not an address`);
  return read;
}

function announce(context: CliContext, url: string, first: FirstAccount | null): void {
  const link = first === null ? null : `${url}${first.path}`;
  const hint = 'There is no admin yet. Create the first account here (the link works once):';
  printResult(context, { url, first_account: link, pid: process.pid }, [
    `The console is at ${url}/`,
    ...(link === null ? [] : [hint, `  ${link}`]),
    'Press Ctrl+C to stop it.',
  ]);
}
