/** A process whose one command crashes with the key, once it has read its settings. */
import { groups } from '../../src/cli/commands.ts';
import { main } from '../../src/main.ts';

await main(process.argv.slice(2), [
  {
    name: 'work',
    group: groups.mirror,
    summary: 'crash',
    load: () =>
      Promise.resolve({
        define: (program, context) => {
          program.command('work').action(async () => {
            context.settings();
            setImmediate(() => {
              throw new Error(`it broke at ${context.environment['ADMIN_MIRROR_API_KEY']}`);
            });
            await new Promise((resolve) => setTimeout(resolve, 10_000));
          });
        },
      }),
  },
]);
