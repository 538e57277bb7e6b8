/** The process that copies one file. Gets the names on its standard input: as arguments, they could be taken for options. */
import { copyFileSync, readFileSync } from 'node:fs';

try {
  const { source, target } = JSON.parse(readFileSync(0, 'utf8')) as {
    readonly source: string;
    readonly target: string;
  };
  copyFileSync(source, target);
} catch (error) {
  // An error of the system, for whoever waits for the copy.
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  process.stdout.write(JSON.stringify({ message, code, syscall }));
}
