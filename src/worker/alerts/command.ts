/** The operator's own program for alerts: JSON on its standard input, the main fields in its environment. */
import { spawn } from 'node:child_process';
import type { Log } from '../../model/log.ts';
import { minuteMs, secondMs } from '../../model/time.ts';
import type { AlertPayload } from './message.ts';

export const commandLimitMs = minuteMs;

/** What is logged of its output. */
const longestOutput = 4_096;

export interface CommandPorts {
  readonly folder: string;
  /** Given to it besides the alert's own. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly log: Log;
  /** One minute where it is left out. */
  readonly limitMs?: number;
}

/**
 * Runs the program, without a shell: nothing that an alert says can be run. Resolves where it ended with 0; rejects with an
 * Error that says how else. It is ended when it takes too long, or when the signal is aborted.
 */
export function runAlertCommand(
  [program = '', ...words]: readonly string[],
  payload: AlertPayload,
  { folder, environment, log, limitMs = commandLimitMs }: CommandPorts,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, words, {
      cwd: folder,
      env: { ...environment, ...fieldsOf(payload) },
      stdio: 'pipe',
      // A group of its own, so that what it has started ends with it.
      detached: true,
    });
    let output = '';
    // First of all: where it could not be started for want of descriptors, it has no streams either.
    child.once('error', (error: NodeJS.ErrnoException) =>
      settle(`the alert command ${program} could not be run (${error.code ?? 'unknown'})`),
    );
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output = `${output}${text}`.slice(0, longestOutput);
      });
    }
    function settle(problem: string | undefined): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', end);
      if (output.trim() !== '') log.info({ alert: payload.id }, `the alert command said: ${output.trim()}`);
      if (problem === undefined) resolve();
      else reject(new Error(problem));
    }
    const end = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    };
    let isTooLong = false;
    const timer = setTimeout(() => {
      isTooLong = true;
      end();
    }, limitMs);
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    child.once('close', (code) => {
      if (isTooLong) settle(`the alert command took longer than ${limitMs / secondMs} s`);
      else settle(code === 0 ? undefined : `the alert command ended with ${code ?? 'a signal'}`);
    });
    // It need not read.
    child.stdin.on('error', () => {});
    child.stdin.end(`${JSON.stringify(payload)}\n`);
  });
}

function fieldsOf({ id, problem, kind, resolved, text, job, run, outcome, exit_code }: AlertPayload) {
  return {
    ALERT_ID: id,
    ALERT_PROBLEM: problem,
    ALERT_KIND: kind,
    ALERT_RESOLVED: resolved ? '1' : '0',
    ALERT_TEXT: text,
    ALERT_JOB: job ?? '',
    ALERT_RUN: run ?? '',
    ALERT_OUTCOME: outcome ?? '',
    ALERT_EXIT_CODE: exit_code === null ? '' : String(exit_code),
  };
}
