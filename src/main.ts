/** The process: takes arguments and signals, ends with an exit code. Nothing else in the program ends it. */
import type { CommandRow } from './cli/commands.ts';
import { childWord, version } from './model/program.ts';
import type { ExitCode } from './model/errors.ts';

/** Runs the command line and ends the process with its exit code. Tests pass commands of their own. */
export async function main(argv: readonly string[], rows?: readonly CommandRow[]): Promise<void> {
  const output: OutputState = { mustFinish: false, code: 0, failure: undefined };
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    output.failure ??= error;
    // Once something was sent to a server, its outcome decides the exit code, whether or not anybody reads the output.
    if (output.mustFinish) return;
    // The reader (`| head`) has all that it wanted. What the command has found by then still counts.
    if (error.code === 'EPIPE') process.exit(output.code);
    process.stderr.write(`error: could not write to standard output: ${error.message}\n`);
    process.exit(2);
  });
  // If standard error fails, there is nobody left to tell.
  process.stderr.on('error', () => {});
  // Scripts call this often, so it prints before anything else is loaded.
  if (argv.length === 1 && (argv[0] === '--version' || argv[0] === '-V')) process.stdout.write(`${version()}\n`);
  else process.exit(await runProcess(argv, output, rows));
}

/** The state of standard output. */
interface OutputState {
  /** The command has begun to send: it runs to its end, and its exit code counts, even if nobody reads the output. */
  mustFinish: boolean;
  /** The exit code that the command has set so far. */
  code: ExitCode;
  failure: NodeJS.ErrnoException | undefined;
}

async function runProcess(
  argv: readonly string[],
  output: OutputState,
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
  const secrets = new SecretWords();
  process.on('uncaughtException', (error) => {
    process.stderr.write(harmless(secrets.redact(`error: ${bugText(error)}`)));
    process.exit(1);
  });
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const reason = new InterruptedError(signal);
      // The first signal lets the command end in an orderly way. Whoever sends a second does not want to wait.
      if (stop.signal.aborted) process.exit(reason.exitCode);
      stop.abort(reason);
    });
  }
  const child = isChild(argv) ? await (await import('./cli/job-child.ts')).takeJob() : undefined;
  nameProcess(child?.call.path ?? argv, withoutCredentials);
  // The worker that started this process has died: nobody waits for it any more, and the next worker starts it again.
  process.once('disconnect', () => stop.abort(new InterruptedError('SIGTERM')));
  process.channel?.unref();
  const world = {
    stdout: process.stdout,
    stderr: process.stderr,
    stdin: () => process.stdin,
    signal: stop.signal,
    environment: process.env,
    folder: process.cwd(),
    secrets,
    onSend: () => {
      output.mustFinish = true;
    },
    onExit: (next: ExitCode) => {
      output.code = next;
    },
  };
  const code = await run(child?.call ?? argv, child === undefined ? world : { ...world, given: child.given }, rows);
  await child?.flush();
  await Promise.all([process.stdout, process.stderr].map((each) => new Promise((done) => each.write('', done))));
  const { failure } = output;
  if (failure === undefined || failure.code === 'EPIPE') return code;
  process.stderr.write(
    `error: could not write to standard output: ${failure.message}\n` +
      'The request was sent anyway. Check its outcome before you run the command again.\n',
  );
  return code === 0 ? 5 : code;
}

/** Whether another process of this program has started this one, and sends what to do as data: src/worker/run-job.ts. */
function isChild(argv: readonly string[]): boolean {
  return argv.length === 1 && argv[0] === childWord && process.send !== undefined;
}

/** Makes process lists show `admin-mirror` with its arguments, so that people find it to send a signal. Hides passwords in them. */
function nameProcess(argv: readonly string[], withoutCredentials: (address: string) => string): void {
  const safe = argv.map((each, at) => {
    // The word after a flag is its value, even if it looks like another flag.
    if (argv[at - 1] === '--password') return each === '-' ? each : '****';
    if (each.startsWith('--password=')) return '--password=****';
    if (argv[at - 1] === '--base-url') return withoutCredentials(each);
    return each.startsWith('--base-url=') ? `--base-url=${withoutCredentials(each.slice('--base-url='.length))}` : each;
  });
  process.title = ['admin-mirror', ...safe].join(' ');
}

// Without this, `node src/main.ts sync` would do nothing and end with 0.
if (import.meta.main) await main(process.argv.slice(2));
