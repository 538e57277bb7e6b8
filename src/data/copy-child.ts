/** The process that copies one file. Gets the names on its standard input: as arguments, they could be taken for options. */
import { copyFileSync } from 'node:fs';
import { json } from 'node:stream/consumers';

try {
  const { source, target } = (await json(process.stdin)) as {
    readonly source: string;
    readonly target: string;
  };
  copyFileSync(source, target);
} catch (error) {
  // An error of the system, for whoever waits for the copy.
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  process.stdout.write(JSON.stringify({ message, code, syscall }));
}
