/** The process: arguments and signals in, exit code out. Nothing else ends it. */
import type { CommandRow } from './cli/commands.ts';
import { version } from './model/program.ts';
import type { ExitCode } from './model/errors.ts';

/** Runs the command line and ends the process with its exit code. Tests bring commands of their own. */
export async function main(argv: readonly string[], rows?: readonly CommandRow[]): Promise<void> {
  const response: Response = { counts: false, failure: undefined };
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    response.failure ??= error;
    // What was sent to a server decides how the command ends, and not whether anybody reads of it.
    if (response.counts) return;
    // The reader (`| head`) has what it wanted.
    if (error.code === 'EPIPE') process.exit(0);
    process.stderr.write(`error: could not write to standard output: ${error.message}\n`);
    process.exit(2);
  });
  // Where standard error is gone there is nobody to tell.
  process.stderr.on('error', () => {});
  // Needed often and by scripts, so printed before anything else is loaded.
  if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) process.stdout.write(`${version()}\n`);
  else process.exit(await runProcess(argv, response, rows));
}

/** What becomes of standard output. */
interface Response {
  /** The command has begun to send: it goes on to its end, and its exit code counts. */
  counts: boolean;
  failure: NodeJS.ErrnoException | undefined;
}

async function runProcess(
  argv: readonly string[],
  response: Response,
  rows?: readonly CommandRow[],
): Promise<ExitCode> {
  const [{ run }, { InterruptedError }, { bugText }, { SecretWords, withoutCredentials }, { harmless }] =
    await Promise.all([
      import('./cli/program.ts'),
      import('./model/errors.ts'),
      import('./cli/output.ts'),
      import('./model/secret.ts'),
      import('./model/text.ts'),
    ]);
  nameProcess(argv, withoutCredentials);
  const secrets = new SecretWords();
  process.on('uncaughtException', (error) => {
    process.stderr.write(harmless(secrets.redact(`error: ${bugText(error)}`)));
    process.exit(1);
  });
  const events = new EventTarget();
  // Left to itself, Node would open a debugger at this signal.
  process.on('SIGUSR1', () => events.dispatchEvent(new Event('reopen')));
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const reason = new InterruptedError(signal);
      // The first lets the command end in order; whoever sends a second will not wait.
      if (stop.signal.aborted) process.exit(reason.exitCode);
      stop.abort(reason);
    });
  }
  // Started by a worker that has died: nobody waits for it any more, and the next worker will begin it again.
  process.once('disconnect', () => stop.abort(new InterruptedError('SIGTERM')));
  process.channel?.unref();
  const world = {
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: () => process.stdin,
    signal: stop.signal,
    onHangUp: (listener: () => void) => {
      process.on('SIGHUP', listener);
      return () => void process.off('SIGHUP', listener);
    },
    environment: process.env,
    folder: process.cwd(),
    secrets,
    events,
    onSend: () => {
      response.counts = true;
    },
  };
  const code = await run(argv, world, rows);
  await Promise.all([process.stdout, process.stderr].map((each) => new Promise((done) => each.write('', done))));
  const { failure } = response;
  if (failure === undefined || failure.code === 'EPIPE') return code;
  process.stderr.write(
    `error: could not write to standard output: ${failure.message}\n` +
      'The request was sent all the same. Look at its outcome before you give the command again.\n',
  );
  return code === 0 ? 5 : code;
}

/**
 * Lists of processes then show `admin-mirror` with its arguments, which is also what it is found by to be sent a signal. A
 * password that is one of them is taken out of there.
 */
function nameProcess(argv: readonly string[], withoutCredentials: (address: string) => string): void {
  const shown = argv.map((each, at) => {
    if (argv[at - 1] === '--base-url') return withoutCredentials(each);
    if (each.startsWith('--base-url=')) return `--base-url=${withoutCredentials(each.slice('--base-url='.length))}`;
    if (argv[at - 1] === '--password' && each !== '-') return '****';
    return each.startsWith('--password=') ? '--password=****' : each;
  });
  process.title = ['admin-mirror', ...shown].join(' ');
}

// Otherwise `node src/main.ts sync` would do nothing, and end as if it had.
if (import.meta.main) await main(process.argv.slice(2));
