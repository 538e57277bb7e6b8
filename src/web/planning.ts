/**
 * Plans the sheets that people hand in, and the undoing of batches: each a command in a process of its own, in the name of the
 * account. Section "The console" of docs/architecture.md.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import type { ColumnsQuestion } from '../bulk/sheet/columns.ts';
import type { DecimalMark } from '../bulk/sheet/amount.ts';
import type { Actor } from '../model/actor.ts';
import { errorOf, IncompleteError, UsageError } from '../model/errors.ts';
import type { CommandCall } from '../model/job.ts';
import { durationText, minuteMs } from '../model/time.ts';
import type { GivenData, RunJob } from '../worker/run-job.ts';

/** What the person must answer before the sheet can be planned. */
interface PlanQuestion {
  readonly row: number;
  readonly text: string;
  readonly count: number;
  readonly readings: readonly { readonly mark: Exclude<DecimalMark, null>; readonly amount: string }[];
}

/** Which column is which, or how amounts are meant. */
export type SheetQuestion = { readonly columns: ColumnsQuestion } | { readonly question: PlanQuestion };

/** The name of the batch, or a question. */
type Planned = { readonly batch: string } | SheetQuestion;

interface PlanningPorts {
  readonly run: RunJob;
  readonly given: GivenData;
  /** Shorter than a browser's connection may be silent (`connectionTimeout`), so that the person sees the error. */
  readonly limitMs?: number;
}

/** Plans of different accounts at once. */
const atOnce = 4;

const nothingPlanned = 'Nothing was planned. Split the sheet into smaller files.';

/** Plans one sheet of an account after the other, so that nobody's slow sheets take all turns. */
export class Planning {
  readonly #ports: PlanningPorts;
  readonly #byAccount = new Map<string, LimitFunction>();
  readonly #all = pLimit(atOnce);

  constructor(ports: PlanningPorts) {
    this.#ports = ports;
  }

  /** Runs `bulk plan` or `bulk undo` as the actor. Throws an OperatorError if it cannot be planned. @param folder of the sheet */
  async plan(call: CommandCall, actor: Actor, signal: AbortSignal, folder?: string): Promise<Planned> {
    const account = actor.account ?? '';
    const own = this.#byAccount.get(account) ?? pLimit(1);
    this.#byAccount.set(account, own);
    return own(() => this.#all(() => this.#plan(call, actor, signal, folder)));
  }

  async #plan(call: CommandCall, actor: Actor, signal: AbortSignal, folder?: string): Promise<Planned> {
    signal.throwIfAborted();
    const { run, given, limitMs = 4 * minuteMs } = this.#ports;
    const late = AbortSignal.timeout(limitMs);
    // Killed at once: a plan is stored whole or not at all.
    const use = {
      given,
      actor,
      fields: { account: actor.account },
      graceMs: 0,
      ...(folder !== undefined && { folder }),
    };
    const { report, failure, problem, exitCode } = await run(call, use, AbortSignal.any([signal, late]));
    if (report !== null) return report as Planned;
    signal.throwIfAborted();
    if (late.aborted) {
      const message = `checking the sheet took ${durationText(limitMs)}, which is the limit`;
      throw new UsageError(message, { advice: nothingPlanned });
    }
    if (failure !== null) throw errorOf(failure);
    const how = problem ?? `exit code ${exitCode}`;
    throw new IncompleteError(`the process that checked the sheet ended before it was done (${how})`, {
      advice: `${nothingPlanned} If the operating system ended the process, the machine was short of memory.`,
    });
  }
}
