/** A process with one command, which waits. Asked to stop, it does or goes on regardless; or it crashes with the key. */
import { once } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { groups } from '../../src/cli/commands.ts';
import { main } from '../../src/main.ts';

export type Manner = 'polite' | 'stubborn' | 'crashing';

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
            .action(async (manner: Manner) => {
              context.stdout.write('working\n');
              if (manner === 'crashing') {
                // With them the program knows the key.
                context.settings();
                setImmediate(() => {
                  throw new Error(`it broke at ${context.environment['ADMIN_MIRROR_API_KEY']}`);
                });
              }
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
