/**
 * The money as a world of small steps: two processes with batches of rows, the journal that they share, the mirror that
 * remembers it, a server that may lie, people, and time. All decisions are made by the functions that run in production. The
 * world adds only how far a process is, and what can happen between two of its steps.
 *
 * More is allowed here than in production: rows of different users are sent in any order, no row is sent alone before the
 * others, and a process may stop anywhere.
 */
import { balance } from '../../../src/bulk/actions/balance.ts';
import { type BalanceParameters, observationOf } from '../../../src/bulk/actions/balance-judge.ts';
import type { Action, Judgement } from '../../../src/bulk/action.ts';
import { decideClaim } from '../../../src/bulk/claim.ts';
import {
  agree,
  checkStep,
  isOpen,
  laterVerdictOf,
  needsSecondLook,
  stateAfterResponse,
  type Verdict,
  verdictOf,
  type WatchedState,
  watchedStates,
} from '../../../src/bulk/intent.ts';
import { memoryProblem } from '../../../src/bulk/journal-memory.ts';
import { decideSending } from '../../../src/bulk/send-row.ts';
import type {
  AnswerKind,
  Batch,
  ClaimedRow,
  ClaimView,
  Evidence,
  Intent,
  IntentState,
  SentRow,
} from '../../../src/journal/port.ts';
import { OperatorError } from '../../../src/model/errors.ts';
import { moneyOf, noCaps } from '../../../src/model/money.ts';
import { type Timestamp, timestampOf } from '../../../src/model/time.ts';
import type { Model } from './explore.ts';

/** What the code does so that nobody is paid twice. A world without a guard shows what it is for. */
export const guards = {
  claim_check: 'the transaction that claims the rows checks what else was sent',
  bounds: 'the claim keeps to the bound on the money of a day',
  lock: 'one process holds the lock of a batch',
  lock_in_step: 'a process that lost its lock takes no further step',
  from_state: 'a step names the state that it comes from',
  one_open_row: 'one row of a user is open at a time',
  in_order: 'a row waits while an earlier one of its user was sent and not made, and nobody has decided about it',
  in_place: 'a step checks that the journal is still the file that was opened',
  memory: 'the journal has the newest step that the mirror remembers',
  memory_before_send: 'the mirror’s memory is checked once more just before the request is sent',
  own_token: "the row's own mark is looked for before it is sent for the first time",
  other_tokens: 'unknown marks of the same payment are looked for before a row is sent',
  look_again: 'before a row is sent again, the outcome of its previous request is looked for',
  sent_until: 'a write gets its time from when its request was sent, not from when it was recorded',
  send_by: 'a request that was not sent in time is not sent any more',
  may_begin: 'a process whose lock has ended sends nothing',
  verdict_first: 'a verdict that waits is on the disk before the next row of its user is sent',
  settle_after: 'a write that is not found gets its time',
  second_look: 'two looks must agree',
  look_after_response: 'the user is looked at after any response',
  made_twice_stops: 'nothing is sent while a row is known to have been made twice',
  adopt_waits: 'nothing is adopted while an unknown request may be under way',
  adopted_is_news: 'an adopted payment counts as claimed when the journal learned of it',
  unknown_send: 'a request that only the mirror knows gets its time, too',
} as const;
export type Guard = keyof typeof guards;

/** What a server may do with a request besides making the write and saying so. */
export const faults = {
  lost: 'makes it, and its response is lost',
  dropped: 'does not make it, and no response comes',
  under_way: 'has not made it when the client gives up',
  refused: 'refuses it',
  false_refusal: 'makes it, and says that it refused',
  false_success: 'does not make it, and says that it did',
  later: 'asks to come back later',
  false_later: 'makes it, and asks to come back later',
  twice: 'makes it twice',
} as const;
export type FaultName = keyof typeof faults;

export interface World {
  readonly name: string;
  readonly rows: readonly { readonly batch: 0 | 1; readonly user: 0 | 1; readonly type?: 'remove' }[];
  readonly processes: 1 | 2;
  /** Both batches have the same file. */
  readonly sameFile?: true | undefined;
  /** Nobody has planned anything yet. */
  readonly unplanned?: true | undefined;
  /** How often each may happen. */
  readonly crashes?: number;
  readonly faults?: number;
  readonly kinds?: readonly FaultName[];
  readonly otherChanges?: number;
  readonly restores?: 1;
  readonly staleLooks?: number;
  readonly resends?: number;
  readonly agains?: number;
  readonly locksLost?: number;
  /** The amount by which somebody else changes a balance. */
  readonly otherChange?: string;
  /** Whether there is a mirror, and whether it is restored with the journal. */
  readonly mirror?: 'kept' | 'put back';
  /** What the server shows of transactions. */
  readonly shows?: 'all' | 'hidden' | 'cut' | 'late';
  /** The server may make a write later than `bulk.settle_after`. */
  readonly isLate?: true;
  /**
   * The journal may be restored even while requests are under way. `any`: at any moment, so that a row may count as not applied
   * until the next look. `sent`: except between the record that a row is being sent and its request.
   */
  readonly whilePaying?: 'any' | 'sent';
  readonly maxDay?: string;
  /** The verdict that a row was applied may be recorded with the next step of the process. */
  readonly verdictsWait?: true;
  readonly without?: readonly Guard[];
}

/** What the server showed of a user: the balance, then the maker of each change that it shows. */
type Seen = string;
interface Row {
  s: IntentState | 'absent';
  /** When it was claimed, as a growing number; 0 if never. */
  claimed: number;
  /** 1 if it was sent, however often. */
  attempts: 0 | 1;
  /** Sent longer ago than `bulk.settle_after`. */
  old: boolean;
  answer: AnswerKind | null;
  evidence: Evidence | null;
  twice: boolean;
  before: Seen;
}
export interface Journal {
  rows: Row[];
  batches: { state: 'planned' | 'applying' | 'stopped'; again: boolean; behind: boolean; owner: number }[];
}
type Place =
  | 'idle'
  | 'prompt'
  | 'memory'
  | 'claim'
  | 'rows'
  | 'mark'
  | 'remember'
  | 'leave'
  | 'wait'
  | 'record'
  | 'look'
  | 'second'
  | 'verdict'
  | 'settle'
  | 'review';
interface Process {
  at: Place;
  batch: number;
  job: 'apply' | 'resume' | 'reconcile';
  again: boolean;
  row: number;
  tried: number;
  seen: Seen;
  /** What the first of two looks saw. */
  first: Seen;
  response: AnswerKind | 'later' | null;
  /** The row, and the evidence that it was applied, that it will record with its next step. */
  kept: { readonly row: number; readonly evidence: Evidence | null } | null;
  /** It recorded that it would send longer ago than `bulk.settle_after`. */
  old: boolean;
  /** The journal was restored, so the file that this process has open is no longer the journal. */
  ghost: boolean;
}
export interface State {
  journal: Journal;
  copy: Journal | null;
  /** The newest step that the mirror remembers: none, one of this journal, or one that it lacks. Also of the copy. */
  memory: 'none' | 'here' | 'ahead';
  memoryOfCopy: 'none' | 'here';
  /** A request was remembered since the copy was made or restored. `memoryOld`: the newest of them was long ago. */
  rememberedSince: boolean;
  memoryOld: boolean;
  /** The changes of each user: the row that made it, with `'` if a proxy repeated it, or `o` for others; `?`: not shown yet. */
  made: string[][];
  /** Rows whose requests were sent and that nobody waits for. */
  underWay: number[];
  processes: Process[];
  left: {
    crashes: number;
    faults: number;
    otherChanges: number;
    restores: number;
    staleLooks: number;
    resends: number;
    agains: number;
    locksLost: number;
  };
  /** How often each payment may be made: once, and once more for each time that somebody allowed it. */
  permitted: number[];
  wrong: string | null;
}
type Moves = Generator<readonly [string, State]>;

const amount = '5.00';
const start = Date.UTC(2026, 2, 11);
const at = (step: number): Timestamp => timestampOf(start + step * 1_000);
const outward = ({ s, claimed }: Row): boolean =>
  claimed > 0 && s !== 'rejected' && s !== 'skipped' && s !== 'invalid' && s !== 'absent';
const action = balance as unknown as Action;
const idle: Process = {
  at: 'idle',
  batch: 0,
  job: 'apply',
  again: false,
  row: 0,
  tried: 0,
  seen: '',
  first: '',
  response: null,
  kept: null,
  old: false,
  ghost: false,
};
const isNotMade = ({ s }: Row): boolean => s === 'rejected' || s === 'not_applied';
const absent: Row = {
  s: 'absent',
  claimed: 0,
  attempts: 0,
  old: false,
  answer: null,
  evidence: null,
  twice: false,
  before: '',
};

/** Does the work once for each key and remembers the result. */
function remembered<T>(work: (...key: readonly (string | number)[]) => T): (...key: readonly (string | number)[]) => T {
  const known = new Map<string, T>();
  return (...key) => {
    const name = key.join('|');
    const found = known.get(name) ?? work(...key);
    known.set(name, found);
    return found;
  };
}

/** The world as a model. */
export function modelOf(
  world: World,
): Model<State> & { readonly viewOf: (journal: Journal, mine: number) => ClaimView } {
  const { rows, shows = 'all', without = [] } = world;
  const on = (guard: Guard): boolean => !without.includes(guard);
  const places = rows.map((_, row) => row);
  const user = (row: number): number => rows[row]?.user ?? 0;
  const batch = (row: number): number => rows[row]?.batch ?? 0;
  const type = (row: number): 'add' | 'remove' => rows[row]?.type ?? 'add';
  const token = (row: number): string => `am:${'abcdefgh'.charAt(row).repeat(12)}`;
  const payment = (row: number): string => `user ${user(row)} ${type(row)} ${amount}`;
  const payments = [...new Set(places.map(payment))];
  const named = (row: number): string =>
    `row ${places.filter((each) => batch(each) === batch(row)).indexOf(row) + 1} of batch ${'AB'.charAt(batch(row))} (user ${user(row) + 1})`;
  const parameters = (row: number): BalanceParameters => ({
    type: type(row),
    amount,
    description: 'Credit',
    expected_balance: null,
  });

  const observation = remembered((row, seen) => {
    const [balanceText = '', ...made] = String(seen).split(' ');
    const transactions = made.map((by, id) => ({
      id,
      created_at: at(0),
      result: by === 'o' ? '+' : type(Number.parseInt(by)) === 'add' ? '+' : '-',
      amount: by === 'o' ? (world.otherChange ?? '1.00') : amount,
      description: by === 'o' ? 'Something else' : `Credit${shows === 'cut' ? '' : ` ${token(Number.parseInt(by))}`}`,
    }));
    const record = {
      id: user(Number(row)),
      balance: balanceText,
      ...(shows !== 'hidden' && { balance_transactions: transactions }),
    };
    return observationOf(record, parameters(Number(row)), token(Number(row)));
  });
  const judged = remembered((row, before, seen, response): Judgement => {
    const target = { user: user(Number(row)), parameters: parameters(Number(row)), token: token(Number(row)) };
    const kind = response === '' ? null : (response as AnswerKind);
    return balance.judge(target, observation(row, before), observation(row, seen), kind);
  });
  const look = (state: State, row: number): Seen => {
    const made = state.made[user(row)] ?? [];
    const change = (by: string): number =>
      by.startsWith('o') ? Number(world.otherChange ?? 1) : type(Number.parseInt(by)) === 'add' ? 5 : -5;
    const sum = made.reduce((before, by) => before + change(by), 100);
    return [String(sum), ...(shows === 'hidden' ? [] : made.filter((by) => !by.endsWith('?')))].join(' ');
  };
  const intentOf = (row: number, now: Row): Intent => ({
    ...({ key: null, plannedEmail: null, plannedUsername: null, plannedBefore: '100.00' } as Intent),
    batch: String(batch(row)),
    row,
    user: user(row),
    token: token(row),
    fingerprint: payment(row),
    parameters: parameters(row),
    attempts: now.attempts,
    evidence: now.evidence,
    seenBefore: now.before === '' ? null : observation(row, now.before),
  });

  /** An earlier row of the same user in the batch was sent and not made, and nobody has decided about it. */
  const isHeldBack = ({ rows: all }: Pick<Journal, 'rows'>, row: number): boolean =>
    places.some((each) => {
      const earlier = all[each] ?? absent;
      const isBefore = each < row && batch(each) === batch(row) && user(each) === user(row);
      return isBefore && isNotMade(earlier) && earlier.evidence !== 'person';
    });

  /** What `src/journal/claim-view.ts` reads of the journal. `view.test.ts` compares the two. */
  function viewOf({ rows: all, batches }: Journal, mine: number): ClaimView {
    const view = (row: number): ClaimedRow => ({
      row,
      user: user(row),
      fingerprint: payment(row),
      plannedBefore: '100.00',
      plannedAfter: type(row) === 'add' ? '105.00' : '95.00',
      claimedAt: (all[row]?.claimed ?? 0) === 0 ? null : at(all[row]?.claimed ?? 0),
    });
    const own = places.filter((row) => batch(row) === mine && ['planned', 'blocked'].includes(all[row]?.s ?? ''));
    const others = places.filter((row) => all[row] !== undefined && outward(all[row]) && !own.includes(row));
    const elsewhere = others.filter((row) => batch(row) !== mine);
    const batchNamed = (each: number) =>
      ({ batch: String(each), fileHash: null, appliedAt: null, createdAt: at(0), behind: 'it is' }) as unknown as Batch;
    const twice = places.find((row) => all[row]?.s === 'needs_human' && all[row].twice);
    const behind = batches.findIndex((each) => each.behind);
    return {
      rows: own.map(view),
      like: world.sameFile === true && elsewhere.length > 0 ? [batchNamed(1 - mine)] : [],
      repeats: elsewhere
        .filter((row) => own.some((each) => payment(each) === payment(row)))
        .map((row) => {
          const { s, claimed, attempts } = all[row] ?? absent;
          return {
            fingerprint: payment(row),
            batch: String(batch(row)),
            row,
            at: at(claimed),
            claimedAt: at(claimed),
            state: s as SentRow['state'],
            found: s === 'applied' && attempts === 0,
          };
        }),
      claimedToday: others.map(view),
      behind: behind < 0 ? undefined : batchNamed(behind),
      overApplied:
        twice === undefined || !on('made_twice_stops') ? undefined : { batch: String(batch(twice)), row: twice },
    };
  }
  /** Whether the rows may be sent, as `decideClaim` decides. */
  function mayClaim({ journal }: State, { batch: mine, job, again }: Process): boolean {
    const found = journal.batches[mine];
    const caps = {
      ...noCaps,
      maxDay: world.maxDay === undefined || !on('bounds') ? undefined : (moneyOf(world.maxDay) ?? undefined),
    };
    const consent = {
      caps,
      again: { reason: again ? 'it is meant' : null },
      approved: job === 'apply' ? 'by typing' : null,
    };
    const batchNow = {
      batch: String(mine),
      state: found?.state ?? 'planned',
      appliedAt: null,
      fileHash: null,
      undoOf: null,
      againReason: found?.again === true ? 'it is meant' : null,
    };
    return !refuses(() => decideClaim(viewOf(journal, mine), batchNow, consent));
  }
  /** Whether the journal is the one that the mirror remembers. */
  const isKnown = ({ memory, rememberedSince }: State, ghost: boolean): boolean =>
    memoryProblem(memory === 'none' ? null : { journal: 'j', step: 1, hash: 'h', batch: null, at: at(0) }, {
      id: 'j',
      gap: null,
      lacks: ghost ? memory === 'here' && rememberedSince : memory === 'ahead',
    }) === null;

  function* moves(state: State): Moves {
    for (const p of state.processes.keys()) yield* processMoves(state, p);
    yield* serverMoves(state);
    yield* surroundings(state);
  }

  /** The move with this story and the state after the change. */
  function next(state: State, story: string, change: (to: State) => void): readonly [string, State] {
    const to = copyOf(state);
    change(to);
    return [story, to];
  }

  function* processMoves(state: State, p: number): Moves {
    const now = state.processes[p] ?? idle;
    const { batch: mine, row, at: place } = now;
    const who = `process ${p + 1}`;
    /** One step of the journal. Returns false if the process may take none and stops. */
    const step = (to: State, change: (journal: Journal) => void): boolean => {
      const self = to.processes[p] ?? idle;
      const isLost = self.ghost ? on('in_place') : on('lock_in_step') && to.journal.batches[mine]?.owner !== p;
      if (isLost) {
        stop(to, p);
        return false;
      }
      // Nobody reads what is written to a file that is no longer the journal.
      if (!self.ghost) {
        const kept = self.kept === null || !on('verdict_first') ? undefined : to.journal.rows[self.kept.row];
        if (kept?.s === 'acknowledged') Object.assign(kept, { s: 'applied', evidence: self.kept?.evidence ?? null });
        change(to.journal);
      }
      if (on('verdict_first')) self.kept = null;
      return true;
    };
    /** From state to state, as `move` of the journal does. */
    const moveRow = (to: State, from: IntentState, into: IntentState, fields: Partial<Row> = {}): boolean => {
      let fits = true;
      const isAlive = step(to, ({ rows: all }) => {
        const each = all[row] ?? absent;
        fits = each.s === from || !on('from_state');
        if (!fits) return;
        checkStep(from, into);
        Object.assign(each, { s: into }, fields);
      });
      if (!fits) stop(to, p);
      return isAlive && fits;
    };
    const goOn = (to: State, fields: Partial<Process>): void => void Object.assign(to.processes[p] ?? {}, fields);
    const current = state.journal.rows[row] ?? absent;
    const toSettle =
      now.job === 'reconcile'
        ? ['unknown', 'acknowledged', 'needs_human', ...watchedStates]
        : ['unknown', 'acknowledged', 'needs_human', 'not_applied'];
    const untried = (states: readonly string[]): number[] =>
      places.filter(
        (each) =>
          batch(each) === mine && (now.tried & (1 << each)) === 0 && states.includes(state.journal.rows[each]?.s ?? ''),
      );

    if (place !== 'idle' && state.left.crashes > 0) {
      yield next(state, `${who} is killed`, (to) => {
        to.left.crashes -= 1;
        stop(to, p, true);
      });
    }
    switch (place) {
      case 'idle':
        for (const [each, { state: stands, owner }] of state.journal.batches.entries()) {
          const own = places.filter((one) => batch(one) === each).map((one) => state.journal.rows[one]?.s ?? 'absent');
          if (own.includes('absent')) continue;
          const name = `batch ${'AB'.charAt(each)}`;
          const begin = { ...now, batch: each, tried: 0 };
          if (stands === 'planned' && own.includes('planned')) {
            for (const again of state.left.agains > 0 ? [false, true] : [false]) {
              const first = { ...begin, job: 'apply' as const, again, at: 'prompt' as const };
              if ((on('memory') && !isKnown(state, false)) || !mayClaim(state, first)) continue;
              yield next(
                state,
                `${who} asks whether ${name} shall go out${again ? ' although it went out before' : ''}`,
                (to) => {
                  if (again) to.left.agains -= 1;
                  goOn(to, first);
                },
              );
            }
          }
          if (owner >= 0 && on('lock')) continue;
          const isOver = own.every(
            (each) => !['planned', 'blocked', 'not_applied'].includes(each) && !isOpen(each as IntentState),
          );
          if (stands !== 'planned' && !isOver) {
            yield next(state, `${who} goes on with ${name}`, (to) =>
              takeUp(to, p, { ...begin, job: 'resume', at: 'settle' }),
            );
          }
          if ((stands !== 'planned' && !isOver) || state.journal.batches[each]?.behind === true) {
            yield next(state, `${who} reconciles ${name}`, (to) =>
              takeUp(to, p, { ...begin, job: 'reconcile', at: 'settle' }),
            );
          }
        }
        return;
      case 'prompt': {
        const free = (state.journal.batches[mine]?.owner ?? -1) < 0 || !on('lock');
        yield next(state, `somebody says yes to ${who}${free ? '' : ', but another one is at the batch'}`, (to) => {
          if (!free || now.ghost) return stop(to, p);
          const found = to.journal.batches[mine];
          if (found !== undefined) found.owner = p;
          goOn(to, { at: 'memory' });
        });
        return;
      }
      case 'memory': {
        const known = !on('memory') || isKnown(state, now.ghost);
        yield next(
          state,
          `${who} finds that the mirror ${known ? 'knows this journal' : 'remembers a newer journal, and stops'}`,
          (to) => (known ? goOn(to, { at: 'claim' }) : stop(to, p)),
        );
        return;
      }
      case 'claim': {
        // Without the guard, the check before the prompt counts.
        const may = !on('claim_check') || mayClaim(state, now);
        yield next(
          state,
          may ? `${who} claims the rows of batch ${'AB'.charAt(mine)}` : `${who} is refused the claim`,
          (to) => {
            if (!may) return stop(to, p);
            const isMadeTwice = state.journal.rows.some((each) => each.s === 'needs_human' && each.twice);
            step(to, (journal) => {
              const newest = Math.max(...journal.rows.map((each) => each.claimed)) + 1;
              for (const [each, found] of journal.rows.entries()) {
                if (batch(each) !== mine || !['planned', 'blocked'].includes(found.s)) continue;
                found.claimed = newest;
                const which = payments.indexOf(payment(each));
                if (now.again) to.permitted[which] = (to.permitted[which] ?? 0) + 1;
                if (isMadeTwice) to.wrong = 'stops_when_made_twice';
              }
              const found = journal.batches[mine];
              if (found !== undefined) Object.assign(found, { state: 'applying', again: found.again || now.again });
              goOn(to, { at: 'rows', tried: 0 });
            });
          },
        );
        return;
      }
      case 'rows': {
        const left = untried(['planned']);
        // The rows of one user in their order.
        const ready = left.filter((each) => !left.some((before) => before < each && user(before) === user(each)));
        for (const each of ready) {
          // It finds the row open, and its own verdict waiting.
          if (now.kept !== null && user(each) === user(now.kept.row) && on('verdict_first')) {
            yield next(state, `${who} records the verdict that waited`, (to) => void step(to, () => {}));
            continue;
          }
          if (on('in_order') && isHeldBack(state.journal, each)) {
            yield next(state, `${who} puts ${named(each)} off: an earlier row of the user was not made`, (to) => {
              checkStep('planned', 'blocked');
              const isDone = step(to, ({ rows: all }) => void Object.assign(all[each] ?? {}, { s: 'blocked' }));
              if (isDone) goOn(to, { tried: now.tried | (1 << each) });
            });
            continue;
          }
          for (const [seen, words, stale] of looks(state, each)) {
            yield next(state, `${who} looks at the user of ${named(each)}${words}`, (to) => {
              to.left.staleLooks -= stale;
              goOn(to, { at: 'mark', row: each, seen });
            });
          }
        }
        if (left.length === 0) {
          yield next(state, `${who} ends`, (to) => {
            if (step(to, () => {})) stop(to, p);
          });
        }
        return;
      }
      case 'mark': {
        const intent = intentOf(row, { ...current, ...(!on('look_again') && { attempts: 0 as const }) });
        const seen = observation(row, now.seen);
        const marks = { own: seen.hits > 0, others: seen.others };
        const isNew = current.attempts === 0;
        const shown = (isNew ? on('own_token') : on('look_again')) ? seen : { ...seen, hits: 0, agreeing: 0 };
        const isUnknown = ({ token: other }: { readonly token: string }) => {
          const of = places.find((each) => token(each) === other);
          const known = of === undefined ? undefined : state.journal.rows[of];
          return known === undefined || known.claimed === 0 || payment(of ?? 0) !== payment(row);
        };
        const other =
          on('other_tokens') && !(now.again && now.job === 'resume') ? marks.others.find(isUnknown) : undefined;
        const decided = decideSending(action, intent, shown, other?.token ?? null);
        const goesOn = { at: 'rows' as const, tried: now.tried | (1 << row), seen: '' };
        const isOpenNow =
          on('one_open_row') &&
          places.some(
            (each) => user(each) === user(row) && isOpen((state.journal.rows[each]?.s ?? 'planned') as IntentState),
          );
        if (isOpenNow) {
          yield next(state, `${who} puts ${named(row)} off: another row of the user is open`, (to) => {
            if (moveRow(to, 'planned', 'blocked')) goOn(to, goesOn);
          });
        } else if (decided.kind === 'send') {
          yield next(state, `${who} records that ${named(row)} is being sent`, (to) => {
            const fields: Partial<Row> = { attempts: 1, old: false, answer: null, evidence: null, before: now.seen };
            if (moveRow(to, 'planned', 'sending', fields)) goOn(to, { at: 'remember', seen: '', old: false });
          });
        } else if (decided.kind === 'move') {
          yield next(state, `${who} does not send ${named(row)}: it is ${decided.to.replace('_', ' ')}`, (to) => {
            const twice = decided.fields.discrepancy === 'over_applied';
            if (moveRow(to, 'planned', decided.to, { evidence: decided.fields.evidence ?? null, twice })) {
              if (twice) stop(to, p);
              else goOn(to, goesOn);
            }
          });
        } else {
          yield next(state, `${who} finds a mark that this journal never sent, and stops`, (to) => {
            const isDone = step(to, ({ batches }) => {
              const found = batches[mine];
              if (found !== undefined && decided.kind === 'behind') found.behind = true;
            });
            if (isDone) stop(to, p);
          });
        }
        return;
      }
      case 'remember': {
        const known = !on('memory_before_send') || isKnown(state, now.ghost);
        yield next(
          state,
          `${who} lets the mirror remember that${known ? '' : ', which knows a newer journal'}`,
          (to) => {
            if (!known) {
              if (moveRow(to, 'sending', 'planned')) stop(to, p);
              return;
            }
            goOn(to, { at: 'leave' });
            if (world.mirror === undefined) return;
            Object.assign(to, { memory: now.ghost ? 'ahead' : 'here', rememberedSince: !now.ghost, memoryOld: false });
          },
        );
        return;
      }
      case 'leave': {
        const isOver = on('may_begin') && !now.ghost && state.journal.batches[mine]?.owner !== p;
        const isLate = on('send_by') && now.old;
        const why = isOver ? 'its lock has ended' : 'too long ago it said that it would';
        const words =
          isOver || isLate
            ? `${who} does not send ${named(row)}: ${why}`
            : `the request for ${named(row)} leaves ${who}`;
        yield next(state, words, (to) => {
          if (!isOver && !isLate) goOn(to, { at: 'wait' });
          else if (moveRow(to, 'sending', 'planned')) stop(to, p);
        });
        return;
      }
      case 'wait':
        for (const [story, made, response, cost, isUnderWay] of outcomes(state, row)) {
          yield next(state, story, (to) => {
            to.left.faults -= cost;
            to.made[user(row)]?.push(...made);
            if (isUnderWay) to.underWay.push(row);
            goOn(to, { at: 'record', response });
          });
        }
        return;
      case 'record': {
        const { response } = now;
        yield next(
          state,
          `${who} records that the response was ${response === 'later' ? 'to come back later' : response}`,
          (to) => {
            if (response === null) return;
            if (response === 'later') {
              if (moveRow(to, 'sending', 'planned')) goOn(to, { at: 'rows', response: null });
              return;
            }
            if (
              moveRow(to, 'sending', stateAfterResponse(response), {
                answer: response,
                old: current.old && !on('sent_until'),
              })
            )
              goOn(to, { at: 'look', response: null });
          },
        );
        return;
      }
      case 'look':
      case 'second': {
        if (!on('look_after_response') && current.answer !== null && current.answer !== 'lost') {
          const into = current.answer === 'accepted' ? 'applied' : 'rejected';
          yield next(state, `${who} takes the response's word for ${named(row)}`, (to) => {
            if (current.s !== 'unknown') moveRow(to, 'acknowledged', 'unknown');
            if (moveRow(to, 'unknown', into)) afterRow(to, p);
          });
          return;
        }
        for (const [seen, words, stale] of looks(state, row)) {
          const wants =
            place === 'look' &&
            needsSecondLook(judged(row, current.before, seen, current.answer ?? ''), circumstances(state, current));
          yield next(
            state,
            `${who} looks at the user of ${named(row)}${place === 'look' ? '' : ' once more'}${words}`,
            (to) => {
              to.left.staleLooks -= stale;
              goOn(to, wants && on('second_look') ? { at: 'second', first: seen } : { at: 'verdict', seen });
            },
          );
        }
        return;
      }
      case 'verdict': {
        if (!isOpen(current.s as IntentState)) {
          yield next(state, `${who} finds that somebody else is at ${named(row)}, and stops`, (to) => stop(to, p));
          return;
        }
        const judgement = judged(row, current.before, now.seen, current.answer ?? '');
        const isAgreed =
          now.first === ''
            ? !on('second_look')
            : agree(judged(row, current.before, now.first, current.answer ?? ''), judgement);
        yield* recorded(
          verdictOf(judgement, { ...circumstances(state, current), agreed: isAgreed }),
          current.s as IntentState,
        );
        return;
      }
      case 'settle': {
        const left = untried(toSettle);
        const [each] = left;
        if (each === undefined) {
          yield next(state, `${who} has looked at all rows`, (to) => {
            if (now.job === 'resume') return takeUp(to, p, { ...now, at: 'memory', tried: 0 });
            const found = to.journal.batches[mine];
            if (found !== undefined && !now.ghost) found.behind = false;
            stop(to, p);
          });
          return;
        }
        const isWatched = (watchedStates as readonly string[]).includes(state.journal.rows[each]?.s ?? '');
        for (const [seen, words, stale] of isWatched ? looks(state, each) : [['', '', 0] as const]) {
          yield next(
            state,
            `${who} ${isWatched ? `looks again at ${named(each)}${words}` : `takes up ${named(each)}`}`,
            (to) => {
              to.left.staleLooks -= stale;
              goOn(to, {
                at: isWatched ? 'review' : 'look',
                row: each,
                seen,
                first: '',
                tried: now.tried | (1 << each),
              });
            },
          );
        }
        return;
      }
      case 'review': {
        const judgement = judged(
          row,
          current.before === '' ? now.seen : current.before,
          now.seen,
          current.answer ?? '',
        );
        const isDecided =
          !(watchedStates as readonly string[]).includes(current.s) ||
          (current.s === 'applied' && current.evidence === 'person');
        yield* recorded(
          isDecided ? null : laterVerdictOf(judgement, current.s as WatchedState),
          current.s as IntentState,
        );
      }
    }

    function* recorded(verdict: Verdict | null, from: IntentState): Moves {
      const isSending = (now.tried & (1 << row)) === 0;
      const canWait = verdict?.to === 'applied' && verdict.discrepancy === null && from === 'acknowledged';
      if (world.verdictsWait === true && isSending && canWait) {
        yield next(state, `${who} will record with its next step that ${named(row)} is applied`, (to) => {
          goOn(to, { kept: { row, evidence: verdict.evidence } });
          afterRow(to, p);
        });
      }
      const words =
        verdict === null || verdict.to === from
          ? `leaves ${named(row)} as it is`
          : `records that ${named(row)} is ${verdict.to.replace('_', ' ')}`;
      yield next(state, `${who} ${words}`, (to) => {
        const twice = verdict?.discrepancy === 'over_applied';
        const claimed = current.claimed > 0 ? {} : { claimed: 1 };
        // A restored journal has old states, so only what it records since then counts.
        const isOut =
          look(state, row).split(' ').includes(String(row)) ||
          state.underWay.includes(row) ||
          state.processes.some((each) => each.at === 'wait' && each.row === row);
        const isWrong = isOut && (verdict?.to === 'not_applied' || verdict?.to === 'rejected') && verdict.to !== from;
        if (world.whilePaying === 'sent' && isWrong && !now.ghost) to.wrong = 'not_applied_only_if_never_made';
        if (
          verdict !== null &&
          verdict.to !== from &&
          !moveRow(to, from, verdict.to, { evidence: verdict.evidence, twice, ...claimed })
        )
          return;
        if (twice) stop(to, p);
        else afterRow(to, p);
      });
    }
  }

  const circumstances = ({ memory, memoryOld }: State, { s, answer, old }: Row) => ({
    state: s as 'acknowledged' | 'unknown' | 'needs_human',
    response: memory === 'ahead' && on('unknown_send') ? null : answer,
    waited: !on('settle_after') || (old && (memory !== 'ahead' || memoryOld || !on('unknown_send'))),
    mayRepeat: false,
  });

  /** What a look may show: the current state, or that before the newest change. */
  function* looks(state: State, row: number): Generator<readonly [Seen, string, 0 | 1]> {
    yield [look(state, row), '', 0];
    if (state.left.staleLooks === 0 || (state.made[user(row)]?.length ?? 0) === 0) return;
    const before = copyOf(state);
    before.made[user(row)]?.pop();
    yield [look(before, row), ', at a replica that lags', 1];
  }

  /** The outcomes of a request that was sent: the changes that it makes, and its response. */
  function* outcomes(
    state: State,
    row: number,
  ): Generator<readonly [string, string[], AnswerKind | 'later', 0 | 1, boolean]> {
    const made = shows === 'late' ? `${row}?` : String(row);
    yield [`the server makes ${named(row)}, and says so`, [made], 'accepted', 0, false];
    if (state.left.faults === 0) return;
    const results: Record<FaultName, readonly [string[], AnswerKind | 'later', boolean]> = {
      lost: [[made], 'lost', false],
      dropped: [[], 'lost', false],
      under_way: [[], 'lost', true],
      refused: [[], 'refused', false],
      false_refusal: [[made], 'refused', false],
      false_success: [[], 'accepted', false],
      later: [[], 'later', false],
      false_later: [[made], 'later', false],
      twice: [[made, `${row}'`], 'accepted', false],
    };
    for (const kind of world.kinds ?? (Object.keys(faults) as FaultName[])) {
      const [changes, response, isUnderWay] = results[kind];
      yield [`the server ${faults[kind]} (${named(row)})`, changes, response, 1, isUnderWay];
    }
  }

  function* serverMoves(state: State): Moves {
    for (const row of new Set(state.underWay)) {
      for (const isMade of [true, false]) {
        yield next(state, `${named(row)} is ${isMade ? 'made late' : 'never made'}`, (to) => {
          to.underWay.splice(to.underWay.indexOf(row), 1);
          if (isMade) to.made[user(row)]?.push(String(row));
        });
      }
    }
    for (const [each, made] of state.made.entries()) {
      const hidden = made.findIndex((by) => by.endsWith('?'));
      if (hidden < 0) continue;
      yield next(state, `the server shows a change of user ${each + 1}`, (to) => {
        const list = to.made[each] ?? [];
        list[hidden] = (list[hidden] ?? '').replace('?', '');
      });
    }
    if (state.left.otherChanges > 0) {
      yield next(state, 'somebody else changes the balance of user 1', (to) => {
        to.left.otherChanges -= 1;
        to.made[0]?.push('o');
      });
    }
  }

  /** Time, people who use the journal, and restored files. */
  function* surroundings(state: State): Moves {
    const { journal, left, processes } = state;
    const isOld =
      journal.rows.every((row) => row.attempts === 0 || row.old) &&
      processes.every((each) => each.old || (each.at !== 'remember' && each.at !== 'leave')) &&
      (state.memoryOld || state.memory === 'none');
    // A server makes a write that reached it within that time, or never.
    const isReached = state.underWay.length > 0 || processes.some((each) => each.at === 'wait');
    if (!isOld && (world.isLate === true || !isReached)) {
      yield next(state, 'time passes, longer than bulk.settle_after', (to) => {
        for (const row of to.journal.rows) row.old ||= row.attempts > 0;
        for (const row of to.copy?.rows ?? []) row.old ||= row.attempts > 0;
        for (const each of to.processes) each.old ||= each.at === 'remember' || each.at === 'leave';
        to.memoryOld = to.memory !== 'none';
      });
    }
    for (const [each, { owner }] of journal.batches.entries()) {
      const own = places.filter((row) => batch(row) === each);
      if (journal.rows[own[0] ?? 0]?.s === 'absent') {
        const view = viewOf(
          { ...journal, rows: journal.rows.map((row, at) => (own.includes(at) ? { ...row, s: 'planned' } : row)) },
          each,
        );
        if (view.repeats.length > 0 || view.like.length > 0) continue;
        yield next(state, `batch ${'AB'.charAt(each)} is planned`, (to) => {
          for (const row of own) to.journal.rows[row] = { ...absent, s: 'planned' };
        });
      } else if (owner >= 0 && left.locksLost > 0) {
        yield next(state, `the lock of batch ${'AB'.charAt(each)} is lost`, (to) => {
          to.left.locksLost -= 1;
          Object.assign(to.journal.batches[each] ?? {}, { owner: -1 });
        });
      } else if (owner < 0) {
        for (const row of own) yield* decisions(state, row);
      }
    }
    const isMarked = processes.some((each) => each.at === 'remember' || each.at === 'leave');
    const isQuiet = world.whilePaying === 'any' || (!isMarked && (world.whilePaying === 'sent' || !isReached));
    if (left.restores > 0 && state.copy === null) {
      yield next(state, 'the journal is copied', (to) => {
        to.copy = copyOf(state).journal;
        to.memoryOfCopy = state.memory === 'none' ? 'none' : 'here';
        to.rememberedSince = false;
      });
    } else if (left.restores > 0 && state.copy !== null && isQuiet) {
      yield next(
        state,
        `the copy of the journal is put back${world.mirror === 'put back' ? ', and the mirror with it' : ''}`,
        (to) => {
          to.left.restores -= 1;
          to.journal = {
            rows: to.copy?.rows ?? [],
            batches: (to.copy?.batches ?? []).map((each) => ({ ...each, owner: -1 })),
          };
          to.copy = null;
          if (world.mirror === 'put back') to.memory = to.memoryOfCopy;
          else if (to.rememberedSince) to.memory = 'ahead';
          to.rememberedSince = false;
          for (const each of to.processes) each.ghost = each.at !== 'idle';
        },
      );
    }
    const mayAdopt = !on('adopt_waits') || state.memory !== 'ahead' || state.memoryOld;
    const isBehind = state.memory === 'ahead' || journal.batches.some((each) => each.behind);
    const isUnknown = state.made.some((made) =>
      made.some(
        (by) => by !== 'o' && ['absent', 'planned', 'blocked'].includes(journal.rows[Number.parseInt(by)]?.s ?? ''),
      ),
    );
    if (shows === 'all' && mayAdopt && (isBehind || isUnknown) && journal.batches.every(({ owner }) => owner < 0)) {
      yield next(state, 'somebody lets the journal adopt what the server shows', (to) => adopt(to));
    }
  }

  /** A person decides about a row, after waiting until nothing is under way and looking at the user. */
  function* decisions(state: State, row: number): Moves {
    const now = state.journal.rows[row] ?? absent;
    const isMade = state.made.some((made) => made.includes(String(row)));
    const isDone = isNotMade(now);
    if (
      now.s === 'absent' ||
      (!isOpen(now.s) && !isDone) ||
      state.underWay.includes(row) ||
      (!now.old && now.attempts > 0)
    )
      return;
    if (state.processes.some((each) => each.at === 'wait' && each.row === row)) return;
    const decide = (outcome: IntentState, words: string, fields: Partial<Row>) =>
      next(state, `somebody says that ${named(row)} ${words}`, (to) => {
        free(to.journal, batch(row));
        const found = to.journal.rows[row] ?? absent;
        const from = found.s === 'acknowledged' ? 'unknown' : (found.s as IntentState);
        checkStep(from, outcome);
        Object.assign(found, { s: outcome, evidence: 'person' }, fields);
        Object.assign(to.journal.batches[batch(row)] ?? {}, { state: 'stopped' });
        free(to.journal, batch(row));
      });
    if (!isDone) yield isMade ? decide('applied', 'was made', {}) : decide('not_applied', 'was not made', {});
    const waiting = places.filter((each) => ['planned', 'blocked'].includes(state.journal.rows[each]?.s ?? ''));
    // Anywhere else it would change nothing.
    if (isDone && waiting.some((each) => isHeldBack(state.journal, each) && user(each) === user(row) && each > row))
      yield decide(now.s, 'stays as it is', {});
    // The decision may be wrong if the server shows what was made.
    if (state.left.resends === 0 || (isMade && shows !== 'all')) return;
    const [words, again] = decide('planned', 'was not made, and shall be sent again', { twice: false });
    yield [words, { ...again, left: { ...again.left, resends: again.left.resends - 1 } }];
  }

  /** Rows that were left sending become unknown, and blocked ones are planned again if nothing holds them back. */
  function free({ rows: all }: Journal, mine: number): void {
    for (const [each, row] of all.entries()) {
      if (batch(each) === mine && row.s === 'sending')
        Object.assign(row, { s: 'unknown', old: row.old && !on('sent_until') });
    }
    const isBusy = (each: number) =>
      all.some((row, other) => user(other) === user(each) && row.s !== 'absent' && isOpen(row.s));
    for (const [each, row] of all.entries())
      if (
        batch(each) === mine &&
        row.s === 'blocked' &&
        !isBusy(each) &&
        !(on('in_order') && isHeldBack({ rows: all }, each))
      )
        row.s = 'planned';
  }

  function takeUp(to: State, p: number, process: Process): void {
    if (process.ghost) return stop(to, p);
    const found = to.journal.batches[process.batch];
    if (found !== undefined) found.owner = p;
    free(to.journal, process.batch);
    to.processes[p] = process;
  }

  /** The process stops. The kernel releases the lock of one that was killed. */
  function stop(to: State, p: number, isKilled = false): void {
    const { batch: mine, ghost, at: place } = to.processes[p] ?? idle;
    const found = to.journal.batches[mine];
    if (found !== undefined && !ghost && found.owner === p) {
      found.owner = -1;
      if (found.state === 'applying') found.state = 'stopped';
    }
    if (place === 'wait' && isKilled) to.underWay.push(to.processes[p]?.row ?? 0);
    to.processes[p] = { ...idle };
  }

  function afterRow(to: State, p: number): void {
    const self = to.processes[p] ?? idle;
    const isSending = (self.tried & (1 << self.row)) === 0;
    Object.assign(self, {
      at: isSending ? 'rows' : 'settle',
      tried: self.tried | (1 << self.row),
      seen: '',
      first: '',
      response: null,
    });
  }

  function adopt(to: State): void {
    for (const [row, found] of to.journal.rows.entries()) {
      const twice = to.made.some((made) => made.includes(`${row}'`));
      const isMade = to.made.some((made) => made.includes(String(row)));
      if (!isMade || found.s === (twice ? 'needs_human' : 'applied')) continue;
      const known = on('adopted_is_news') ? Math.max(...to.journal.rows.map((each) => each.claimed)) + 1 : 1;
      const isBusy = places.some(
        (each) =>
          each !== row && user(each) === user(row) && isOpen((to.journal.rows[each]?.s ?? 'planned') as IntentState),
      );
      const s = twice && !isBusy ? 'needs_human' : 'applied';
      Object.assign(found, { s, twice, evidence: 'token', claimed: found.claimed > 0 ? found.claimed : known });
      Object.assign(to.journal.batches[batch(row)] ?? {}, { state: 'stopped' });
    }
    for (const [row, found] of to.journal.rows.entries()) {
      // A row that was planned after the copy and not made does not exist.
      const isKnown = to.journal.rows.some((each, other) => batch(other) === batch(row) && each.s !== 'absent');
      if (found.s === 'absent' && isKnown) found.s = 'invalid';
    }
    for (const each of to.journal.batches) each.behind = false;
    to.memory = to.memory === 'none' ? 'none' : 'here';
  }

  function broken({ journal, made, permitted, wrong, processes }: State): string | null {
    if (wrong !== null) return wrong;
    const isSentEarly = ({ kept, ghost }: Process): boolean =>
      kept !== null &&
      !ghost &&
      journal.rows[kept.row]?.s === 'acknowledged' &&
      journal.rows.some(({ s }, row) => s === 'sending' && user(row) === user(kept.row));
    if (processes.some(isSentEarly)) return 'verdict_before_the_next_row';
    if (journal.rows.some(({ s }, row) => s === 'sending' && isHeldBack(journal, row)))
      return 'in_the_order_of_the_sheet';
    const times = payments.map(() => 0);
    for (const by of made.flat()) {
      const which = by === 'o' || by.includes("'") ? -1 : payments.indexOf(payment(Number.parseInt(by)));
      times[which] = (times[which] ?? 0) + 1;
    }
    if (times.some((each, which) => each > (permitted[which] ?? 1))) return 'paid_at_most_once';
    for (const [row, { s, evidence }] of journal.rows.entries()) {
      const isMade = made.flat().some((by) => Number.parseInt(by) === row);
      if (evidence === 'person') continue;
      if (s === 'applied' && !isMade) return 'applied_only_if_made';
      if (
        (s === 'not_applied' || s === 'rejected' || s === 'skipped') &&
        isMade &&
        world.isLate !== true &&
        world.restores === undefined
      )
        return 'not_applied_only_if_never_made';
    }
    const claimed = journal.rows.filter(outward).length * 5;
    return world.maxDay !== undefined && claimed > Number(world.maxDay) ? 'within_the_bounds' : null;
  }

  /** A claimed row that may be sent only with a reason does not count as waiting. */
  function isAtRest(state: State): boolean {
    const { journal, underWay, processes } = state;
    const refused = journal.batches.map(
      (_, each) =>
        !mayClaim(state, { ...idle, batch: each, job: 'resume' }) &&
        mayClaim(state, { ...idle, batch: each, job: 'resume', again: true }),
    );
    const isWaiting = ({ s, claimed }: Row, row: number) =>
      s !== 'absent' &&
      (isOpen(s) || s === 'blocked' || (s === 'planned' && claimed > 0 && refused[batch(row)] !== true));
    return (
      underWay.length === 0 &&
      processes.every((each) => each.at === 'idle') &&
      !journal.rows.some(isWaiting) &&
      !journal.batches.some((each) => each.behind)
    );
  }

  /** Users with equal rows may change places, and so may the processes. */
  const swaps = symmetriesOf(world);
  function key(state: State): string {
    for (const journal of [state.journal, state.copy]) {
      // Only the order of claims matters.
      const order = [...new Set(journal?.rows.map((row) => row.claimed))]
        .filter((each) => each > 0)
        .sort((a, b) => a - b);
      for (const row of journal?.rows ?? []) row.claimed = order.indexOf(row.claimed) + 1;
    }
    state.underWay.sort((a, b) => a - b);
    let least = JSON.stringify(state);
    for (const swap of swaps) {
      const text = JSON.stringify(swap(state));
      if (text < least) least = text;
    }
    return least;
  }

  const {
    crashes = 0,
    faults: faultsLeft = 0,
    otherChanges = 0,
    restores = 0,
    staleLooks = 0,
    resends = 0,
    agains = 0,
    locksLost = 0,
  } = world;
  const initial: State = {
    journal: {
      rows: places.map(() => ({ ...absent, s: world.unplanned === true ? 'absent' : 'planned' })),
      batches: [...new Set(places.map(batch))].map(() => ({
        state: 'planned',
        again: false,
        behind: false,
        owner: -1,
      })),
    },
    copy: null,
    memory: 'none',
    memoryOfCopy: 'none',
    rememberedSince: false,
    memoryOld: false,
    made: [[], []],
    underWay: [],
    processes: Array.from({ length: world.processes }, () => ({ ...idle })),
    left: { crashes, faults: faultsLeft, otherChanges, restores, staleLooks, resends, agains, locksLost },
    permitted: payments.map(() => 1),
    wrong: null,
  };
  return { name: world.name, initial, moves, key, broken, isAtRest, viewOf };
}

function copyOf(state: State): State {
  return {
    ...state,
    journal: copyOfJournal(state.journal),
    copy: state.copy === null ? null : copyOfJournal(state.copy),
    made: state.made.map((made) => [...made]),
    underWay: [...state.underWay],
    processes: state.processes.map((each) => ({ ...each })),
    left: { ...state.left },
    permitted: [...state.permitted],
  };
}

function copyOfJournal({ rows, batches }: Journal): Journal {
  return { rows: rows.map((row) => ({ ...row })), batches: batches.map((each) => ({ ...each })) };
}

function refuses(work: () => unknown): boolean {
  try {
    work();
    return false;
  } catch (error) {
    if (error instanceof OperatorError) return true;
    throw error;
  }
}

type Swap = (state: State) => State;

function symmetriesOf({ rows, processes, otherChanges = 0 }: World): Swap[] {
  const others = rows.map(({ batch, user, type }, row) => {
    const before = rows.filter((each, at) => at < row && each.batch === batch && each.user === user).length;
    const alike = rows.flatMap((each, at) =>
      each.batch === batch && each.user !== user && each.type === type ? [at] : [],
    );
    return alike[before] ?? -1;
  });
  const isAlike = otherChanges === 0 && others.every((each) => each >= 0) && new Set(others).size === rows.length;
  const by = (text: string): string => text.replace(/^\d+/, (row) => String(others[Number(row)]));
  const seen = (text: string): string =>
    text
      .split(' ')
      .map((each, at) => (at === 0 ? each : by(each)))
      .join(' ');
  const journalOf = ({ rows: all, batches }: Journal): Journal => ({
    rows: all.map((row, at) => ({
      ...row,
      ...all[others[at] ?? at],
      before: seen((all[others[at] ?? at] ?? row).before),
    })),
    batches,
  });
  const payments = [...new Set(rows.map(({ user, type }) => `${user} ${type}`))];
  const users: Swap = (state) => ({
    ...state,
    journal: journalOf(state.journal),
    copy: state.copy === null ? null : journalOf(state.copy),
    made: [state.made[1] ?? [], state.made[0] ?? []].map((made) => made.map(by)),
    underWay: state.underWay.map((row) => others[row] ?? row).sort((a, b) => a - b),
    processes: state.processes.map((each) => ({
      ...each,
      row: each.at === 'idle' ? 0 : (others[each.row] ?? 0),
      seen: seen(each.seen),
      first: seen(each.first),
      kept: each.kept === null ? null : { ...each.kept, row: others[each.kept.row] ?? 0 },
      tried: rows.reduce((tried, _, row) => tried | (((each.tried >> row) & 1) << (others[row] ?? 0)), 0),
    })),
    permitted: payments.map(
      (each) => state.permitted[payments.indexOf(each.replace(/^\d/, (user) => String(1 - Number(user))))] ?? 1,
    ),
  });
  const both: Swap = (state) => ({
    ...state,
    journal: {
      ...state.journal,
      batches: state.journal.batches.map((each) => ({ ...each, owner: each.owner < 0 ? -1 : 1 - each.owner })),
    },
    processes: state.processes.toReversed(),
  });
  const swaps = [...(isAlike ? [users] : []), ...(processes === 2 ? [both] : [])];
  return swaps.length === 2 ? [...swaps, (state) => users(both(state))] : swaps;
}
