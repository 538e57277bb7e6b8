/** The child's side of a job: takes it from the parent, checks its form, and sends back what it has to say. src/worker/run-job.ts is the other side. */
import { once } from 'node:events';
import * as z from 'zod';
import type { CommandCall } from '../model/job.ts';
import { receivedByChild } from '../settings/passed.ts';
import type { ChildJob, ChildNews } from '../worker/run-job.ts';
import type { GivenByParent } from './context.ts';

/** The commands that children run. Whoever could send a job could run nothing else. */
const paths = [
  'sync',
  'verify',
  'export',
  'snapshot',
  'backup',
  'publish',
  'doctor',
  'bulk plan',
  'bulk undo',
  'bulk run',
  'bulk reconcile',
] as const;

const text = z.string();
const jobSchema = z.strictObject({
  call: z
    .strictObject({
      path: z.array(text).refine((path) => paths.some((each) => each === path.join(' '))),
      operands: z.array(text),
      options: z.record(
        z.stringFormat('flag', /^[a-z]+(?:-[a-z]+)*$/),
        z.union([z.literal(true), text, z.array(text)]),
      ),
    })
    // The console sends batches itself, and a person on the command line too: no child sends one.
    .refine(({ path, options }) => path[1] !== 'run' || options['rehearse'] === true),
  actor: z.strictObject({
    name: text,
    uid: z.number().nullable(),
    host: text,
    sudoUser: text.nullable(),
    job: text.nullable(),
    account: text.nullable(),
  }),
  run: text.nullable(),
  given: z.strictObject({ plain: z.unknown() }),
  output: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('report') }),
    z.strictObject({ kind: z.literal('terminal'), json: z.boolean(), quiet: z.boolean(), color: z.boolean() }),
  ]),
});

/** A report has a few KiB. Something longer is no report that anybody reads. */
const maxReportLength = 1 << 20;

/** Waits for the job. `flush` resolves when everything that was sent has left this process. */
export async function takeJob(): Promise<{
  readonly call: CommandCall;
  readonly given: GivenByParent;
  readonly flush: () => Promise<unknown>;
}> {
  const [message] = (await once(process, 'message')) as [unknown];
  const { call, actor, run, given, output } = jobSchema.parse(message) satisfies ChildJob;
  let sent: Promise<unknown> = Promise.resolve();
  const send = (news: ChildNews): void => {
    if (news.kind === 'report' && JSON.stringify(news.report).length > maxReportLength) return;
    sent = Promise.all([sent, new Promise((done) => process.send?.(news, done))]);
  };
  return {
    call,
    given: {
      ...receivedByChild(given),
      actor,
      run,
      output,
      ...(output.kind === 'report' && { send }),
    },
    flush: () => sent,
  };
}
