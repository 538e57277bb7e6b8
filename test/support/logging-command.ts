/** A process with one command that follows standard input: writes a line into the log, or crashes with the key. */
import { createInterface } from 'node:readline';
import { groups } from '../../src/cli/commands.ts';
import { openLog } from '../../src/cli/logger.ts';
import { main } from '../../src/main.ts';

await main(process.argv.slice(2), [
  {
    name: 'work',
    group: groups.mirror,
    summary: 'log',
    load: () =>
      Promise.resolve({
        define: (program, context) => {
          program.command('work').action(async () => {
            const log = await openLog(context);
            context.stdout.write('ready\n');
            for await (const line of createInterface({ input: context.stdin() })) {
              if (line === 'crash') {
                setImmediate(() => {
                  throw new Error(`it broke at ${context.environment['ADMIN_MIRROR_API_KEY']}`);
                });
              }
              log.info({}, line);
              context.stdout.write(`${line}\n`);
            }
          });
        },
      }),
  },
]);
