/** `schedule` without flags: the worker, from the settings to its end. */
import { OperatorError, UsageError } from '../../model/errors.ts';
import { systemClock } from '../../model/time.ts';
import { settingsFrom } from '../../settings/settings.ts';
import type { WorkerEvent } from '../../worker/events.ts';
import type { Watch } from '../../worker/watch.ts';
import type { Worker } from '../../worker/worker.ts';
import type { CliContext } from '../context.ts';
import { bugText } from '../output.ts';
import { pasteable } from '../pasteable.ts';
import { givenFlags, keepConfig } from './config-copy.ts';
import { commandRunner } from './run-command.ts';
import { withoutSecrets } from './environment.ts';
import { workerLog } from './worker-log.ts';

/** Works until the signal of the context is aborted. Throws LockHeldError where another worker is at this mirror. */
export async function work(context: CliContext): Promise<void> {
  const [{ openWatch, openWorker, watchSettingsOf, withReleases }, { openLog }] = await Promise.all([
    import('../../app.ts'),
    import('../logger.ts'),
  ]);
  const log = await openLog(context);
  const { folder, environment, signal } = context;
  const settings = context.settings();
  const reading = context.reading();
  const flags = givenFlags(reading);
  let config: readonly string[] = [];
  const runCommand = commandRunner({ folder, environment, log, globalFlags: () => [...flags, ...config] });
  const toLog = workerLog(log);
  let watch: Watch | undefined;
  const tell = (event: WorkerEvent): void => {
    // Before it has started, the copy may be that of another worker.
    if (event.kind === 'started') config = ['--config', keepConfig(reading)];
    toLog(event);
    watch?.onEvent(event);
  };

  function reload(worker: Worker): void {
    try {
      const again = context.readAgain();
      const read = settingsFrom(again);
      const { jobs, store } = read;
      if (store.mirror !== settings.store.mirror) {
        throw new UsageError('store.mirror names another mirror now', { advice: 'Start the worker anew for that.' });
      }
      const watching = watchSettingsOf(read);
      // From here on nothing fails: a file is taken whole or not at all.
      config = ['--config', keepConfig(again)];
      worker.reload(jobs);
      watch?.reload(watching);
    } catch (error) {
      // Whatever is wrong with the file, or with us, is no reason to give up tonight's jobs.
      const isOurs = !(error instanceof OperatorError);
      const more = isOurs ? { stack: bugText(error) } : { advice: error.advice };
      const why = error instanceof Error ? error.message : String(error);
      log.error(more, `the config file is not taken, the old one goes on: ${why}`);
    }
  }

  await withReleases(async (releases) => {
    const worker = await openWorker({ settings, clock: systemClock, signal }, { runCommand, tell }, releases);
    watch = await openWatch(
      { settings, clock: systemClock, log },
      {
        view: () => worker.view(),
        folder,
        environment: withoutSecrets(environment),
        pasteable: (text) => pasteable(context, text),
      },
      releases,
    );
    releases.add({ close: context.onHangUp(() => reload(worker)) });
    const ended = new AbortController();
    const running = worker.run().finally(() => ended.abort());
    await Promise.all([running, watch.run(AbortSignal.any([signal, ended.signal]))]);
  });
}
