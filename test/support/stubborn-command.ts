/** A process with one command that reports the request to stop, and either stops or continues regardless. */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { groups } from '../../src/cli/commands.ts';
import { main } from '../../src/main.ts';

await main(process.argv.slice(2), [
  {
    name: 'work',
    group: groups.mirror,
    summary: 'wait',
    load: () =>
      Promise.resolve({
        define: (program, context) => {
          program
            .command('work')
            .argument('<manner>')
            .action(async (manner: string) => {
              context.stdout.write('working\n');
              // Something must keep the process alive, as a connection would.
              const busy = wait(60_000, undefined, { signal: manner === 'polite' ? context.signal : undefined });
              await Promise.race([once(context.signal, 'abort'), busy]);
              context.stdout.write('asked to stop\n');
              await busy;
            });
        },
      }),
  },
]);
