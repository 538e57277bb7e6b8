/** What people do with a batch: hand it over, approve or deny it, send it, settle a row, take it back. */
import { actionOf } from '../../bulk/actions.ts';
import { approveBatch, denyBatch, submitBatch } from '../../bulk/approval.ts';
import { resolveRow } from '../../bulk/settle.ts';
import type { Batch } from '../../journal/port.ts';
import { OperatorError, UsageError } from '../../model/errors.ts';
import { provenAccount } from './sign-in.ts';
import { actorOf, type ConsolePorts, redirect, type Reply, type Visit } from '../route.ts';
import { batchPage } from './batch.ts';
import { batchIn } from './batches.ts';
import { rowPage } from './batch-row.ts';

/** Does it in the name of the caller and shows the batch; with what is wrong where it was refused. */
async function doing(
  visit: Visit,
  ports: ConsolePorts,
  work: (batch: Batch) => Promise<string | undefined | void>,
  show: typeof batchPage = batchPage,
): Promise<Reply> {
  const batch = await batchIn(visit, ports);
  try {
    const to = (await work(batch)) ?? batch.batch;
    return redirect(visit.link(`/batches/${to}`));
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return show(visit, ports, error);
  }
}

function againIn({ form }: Visit): { readonly reason: string | null } {
  const reason = form.get('again')?.trim() ?? '';
  return { reason: reason === '' ? null : reason };
}

export function sendPlanned(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return doing(visit, ports, (batch) =>
    ports.sendings.send(batch, actionOf(batch.action), visit.form.get('typed') ?? '', againIn(visit), actor),
  );
}

export function goOn(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return doing(visit, ports, (batch) => ports.sendings.resume(batch, actionOf(batch.action), againIn(visit), actor));
}

export function stopSending(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, async ({ batch }) => ports.sendings.stop(batch));
}

export function submit(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  return doing(visit, ports, (batch) =>
    submitBatch(journal, batch, { note: visit.form.get('note'), again: againIn(visit) }),
  );
}

/** Approving and denying take the password, or the word of the provider, once more: a screen that was left open says nothing of who sits at it. */
function approvePorts(visit: Visit, ports: ConsolePorts) {
  const { journal, actor } = ports;
  return { journal, actor, signIn: () => provenAccount(visit, ports) };
}

export function approve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, (batch) => approveBatch(approvePorts(visit, ports), batch, visit.form.get('hash') ?? ''));
}

export function deny(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  return doing(visit, ports, (batch) => denyBatch(approvePorts(visit, ports), batch, visit.form.get('reason') ?? ''));
}

export function resolve(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const journal = ports.journal.by(actorOf(visit, ports));
  const said = visit.form.get('outcome') ?? '';
  const row = Number(visit.params['row']);
  return doing(
    visit,
    ports,
    async (batch) => {
      if (said !== 'applied' && said !== 'not_applied' && said !== 'resend') throw new UsageError('say what happened');
      const outcome = said === 'applied' ? said : 'not_applied';
      const reason = visit.form.get('reason') ?? '';
      await resolveRow(journal, batch, { row, outcome, resend: said === 'resend', reason });
    },
    rowPage,
  );
}

export function undo(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const actor = actorOf(visit, ports);
  return doing(visit, ports, async ({ batch, rows }) => {
    const planned = await ports.planning.plan({ kind: 'undo', batch, rows }, actor, visit.signal);
    return 'batch' in planned ? planned.batch : undefined;
  });
}
