/** The file that log lines go to: made for its owner alone, and opened anew when somebody has moved it away. */
import { closeSync, openSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';
import { FileError, type OperatorError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { makeFolder } from '../model/folder.ts';

export interface LogFile {
  /** A line is in the file when this returns. */
  write(line: string): void;
  /** Goes on in a file of the same name, made where it is gone. */
  reopen(): void;
  close(): void;
}

/**
 * Opens the file to write at its end. Throws a FileError where it cannot be written; what goes wrong later is told once,
 * since a full disk of the log must not end a run.
 */
export function openLogFile(path: string, tell: (problem: string) => void): LogFile {
  let told = false;
  const complain = (what: string, error: unknown): void => {
    if (!told) tell(explained(error, what, path).message);
    told = true;
  };
  let handle: number | undefined;
  try {
    makeFolder(dirname(path));
    handle = open(path);
  } catch (error) {
    throw explained(error, 'write the log', path);
  }
  return {
    write: (line) => {
      if (handle === undefined) return;
      try {
        writeSync(handle, line);
      } catch (error) {
        complain('write the log', error);
      }
    },
    reopen: () => {
      try {
        const next = open(path);
        if (handle !== undefined) closeSync(handle);
        handle = next;
        told = false;
      } catch (error) {
        complain('open the log again', error);
      }
    },
    close: () => {
      if (handle !== undefined) closeSync(handle);
      handle = undefined;
    },
  };
}

function explained(error: unknown, what: string, path: string): OperatorError {
  const advice = 'Name another file: --log-file, ADMIN_MIRROR_LOG_FILE or log.file.';
  return (
    explainFileError(error, what, path) ??
    new FileError(`could not ${what} ${path}: ${(error as NodeJS.ErrnoException).code ?? String(error)}`, { advice })
  );
}

function open(path: string): number {
  return openSync(path, 'a', 0o600);
}
