/** The worlds that are explored completely, for each guard the world that shows what it is for, and the limits of the proof. */
import type { ApprovalGuard, ApprovalWorld } from './approvals.ts';
import type { Guard, World } from './world.ts';

/** With a larger number, more may go wrong in each world, as in `npm run soak`. */
const bound = Number(process.env['MODEL_BOUND'] ?? 0);

const a1 = { batch: 0, user: 0 } as const;
const a2 = { batch: 0, user: 1 } as const;
const b1 = { batch: 1, user: 0 } as const;
const b2 = { batch: 1, user: 1 } as const;
const back = { batch: 0, user: 0, type: 'remove' } as const;
const backAgain = { ...back, batch: 1 } as const;
const put = { processes: 2, restores: 1, mirror: 'kept' } as const;

/** One more for each step of the bound. */
const more = (count: number): number => count + bound;

export const worlds: readonly World[] = [
  {
    name: 'two processes, two batches of three rows, two users',
    rows: [a1, a2, back, b1, b2, backAgain],
    processes: 2,
  },
  { name: 'two batches, and a process is killed', rows: [a1, a2, b1], processes: 2, crashes: more(1) },
  { name: 'two batches, and the server lies', rows: [a1, a2, b1], processes: 2, faults: more(1) },
  { name: 'two batches, and one goes out again on purpose', rows: [a1, b1], processes: 2, agains: 1, crashes: bound },
  {
    name: 'one row; the server lies, others change the balance, people decide',
    rows: [a1],
    processes: 1,
    crashes: 1,
    faults: more(2),
    otherChanges: 1,
    resends: 1,
  },
  { name: 'two rows of one user; the server lies', rows: [a1, back], processes: 1, crashes: 1, faults: more(1) },
  { name: 'one batch, two processes, a lock is lost', rows: [a1], processes: 2, faults: 1, locksLost: 1, resends: 1 },
  { name: 'a journal put back at any moment', rows: [a1, b1], ...put, whilePaying: 'any', crashes: bound },
  { name: 'a journal put back, rows sent again', rows: [a1], ...put, faults: 1, resends: 1, whilePaying: 'sent' },
  {
    name: 'journal and mirror put back, the same file planned twice',
    rows: [a1, b1],
    unplanned: true,
    sameFile: true,
    processes: 1,
    restores: 1,
    mirror: 'put back',
    faults: bound,
  },
  { name: 'a journal put back, and no mirror', rows: [a1], processes: 2, restores: 1, crashes: bound },
  {
    name: 'no transactions are shown',
    rows: [a1],
    processes: 1,
    crashes: 1,
    faults: more(2),
    shows: 'hidden',
    otherChanges: 1,
  },
  {
    name: 'no transactions are shown, two rows',
    rows: [a1, back],
    processes: 1,
    crashes: 1,
    faults: more(1),
    shows: 'hidden',
  },
  { name: 'marks are cut off', rows: [a1], processes: 1, crashes: 1, faults: more(2), shows: 'cut', otherChanges: 1 },
  {
    name: 'transactions are shown late',
    rows: [a1],
    processes: 1,
    crashes: 1,
    faults: more(2),
    shows: 'late',
    otherChanges: 1,
  },
  {
    name: 'a replica lags',
    rows: [a1],
    processes: 1,
    crashes: 1,
    faults: 1,
    staleLooks: 1,
    kinds: ['lost', 'dropped', 'under_way', 'refused', 'false_refusal', 'false_success', 'later', 'twice'],
  },
  {
    name: 'writes come later than bulk.settle_after',
    rows: [a1],
    processes: 1,
    crashes: 1,
    faults: more(1),
    isLate: true,
  },
  { name: 'a bound on the day', rows: [a1, a2, backAgain], processes: 2, maxDay: '10.00', crashes: bound },
  {
    name: 'verdicts wait for the next step, and a process is killed',
    rows: [a1, a2, back],
    processes: 1,
    crashes: more(1),
    faults: 1,
    kinds: ['lost', 'false_success'],
    verdictsWait: true,
  },
  {
    name: 'verdicts wait for the next step, of two processes, and a lock is lost',
    rows: [a1, a2, b1],
    processes: 2,
    locksLost: 1,
    verdictsWait: true,
  },
  { name: 'writes are made twice', rows: [a1, b2], processes: 2, faults: more(1), kinds: ['twice'] },
];

interface Case<G, W> {
  readonly without: readonly G[];
  readonly breaks: string;
  readonly world: W;
}

const server: World = { name: 'one row, one lie', rows: [a1], processes: 1, faults: 1 };
const oneBatch: World = { name: 'one batch', rows: [a1], processes: 2, locksLost: 1 };
const anyMoment: World = { name: 'put back at any moment', rows: [a1], ...put, whilePaying: 'any' };
const bothBack: World = {
  name: 'both put back',
  rows: [a1, b1],
  unplanned: true,
  sameFile: true,
  processes: 1,
  restores: 1,
  mirror: 'put back',
};
const [paid, notMade] = ['paid_at_most_once', 'not_applied_only_if_never_made'];

/** Each guard that is removed, and what breaks then. Guards that are removed together back each other up. */
export const guardCases: readonly Case<Guard, World>[] = [
  { without: ['claim_check'], breaks: paid, world: { name: 'two prompts', rows: [a1, b1], processes: 2 } },
  {
    without: ['bounds'],
    breaks: 'within_the_bounds',
    world: { name: 'a bound', rows: [a1, a2, backAgain], processes: 1, maxDay: '10.00' },
  },
  { without: ['lock_in_step', 'may_begin'], breaks: paid, world: { ...oneBatch, faults: 1, kinds: ['false_later'] } },
  {
    without: ['lock_in_step', 'may_begin', 'lock'],
    breaks: paid,
    world: { ...oneBatch, locksLost: 0, faults: 1, kinds: ['false_later'] },
  },
  { without: ['lock_in_step', 'may_begin', 'from_state'], breaks: paid, world: oneBatch },
  {
    without: ['one_open_row'],
    breaks: notMade,
    world: { name: 'no transactions are shown', rows: [a1, back], processes: 1, faults: 1, shows: 'hidden' },
  },
  {
    without: ['in_order'],
    breaks: 'in_the_order_of_the_sheet',
    world: { name: 'two rows of one user', rows: [a1, back], processes: 1, faults: 1 },
  },
  {
    without: ['verdict_first', 'one_open_row'],
    breaks: 'verdict_before_the_next_row',
    world: { name: 'two rows of one user', rows: [a1, back], processes: 1, verdictsWait: true },
  },
  {
    without: ['in_place'],
    breaks: paid,
    world: { name: 'put back, and no mirror', rows: [a1], processes: 2, restores: 1 },
  },
  { without: ['memory_before_send'], breaks: paid, world: anyMoment },
  { without: ['memory_before_send', 'memory'], breaks: paid, world: anyMoment },
  {
    without: ['own_token'],
    breaks: paid,
    world: { ...bothBack, rows: [a1], unplanned: undefined, sameFile: undefined },
  },
  { without: ['other_tokens'], breaks: paid, world: bothBack },
  { without: ['adopted_is_news'], breaks: paid, world: bothBack },
  {
    without: ['adopt_waits'],
    breaks: paid,
    world: { ...anyMoment, processes: 1, faults: 1, kinds: ['under_way'] },
  },
  {
    without: ['unknown_send'],
    breaks: notMade,
    world: { ...anyMoment, processes: 1, faults: 2, kinds: ['dropped', 'under_way'], resends: 1, whilePaying: 'sent' },
  },
  { without: ['look_again'], breaks: paid, world: server },
  { without: ['send_by', 'sent_until'], breaks: notMade, world: server },
  {
    without: ['send_by'],
    breaks: paid,
    world: { ...anyMoment, processes: 1, faults: 1, kinds: ['under_way'], whilePaying: 'sent' },
  },
  { without: ['send_by', 'may_begin'], breaks: notMade, world: oneBatch },
  { without: ['settle_after'], breaks: notMade, world: server },
  {
    without: ['second_look'],
    breaks: notMade,
    world: { ...server, staleLooks: 1, kinds: ['lost', 'refused', 'false_refusal'] },
  },
  { without: ['look_after_response'], breaks: notMade, world: server },
  {
    without: ['made_twice_stops'],
    breaks: 'stops_when_made_twice',
    world: { ...server, rows: [a1, b2], kinds: ['twice'] },
  },
];

/** Removing only one of these breaks nothing, because another one backs it up. */
export const secondLines: readonly Guard[] = [
  'lock',
  'lock_in_step',
  'may_begin',
  'verdict_first',
  'sent_until',
  'from_state',
  'memory',
];

/** What does not hold: worlds in which an invariant breaks with all guards. */
export const limits: readonly Case<Guard, World>[] = [
  {
    without: [],
    breaks: 'applied_only_if_made',
    world: {
      ...server,
      name: 'no transactions are shown, and somebody changes the balance by the same amount',
      shows: 'hidden',
      otherChanges: 1,
      otherChange: '5.00',
    },
  },
  {
    without: [],
    breaks: paid,
    world: { ...server, name: 'a replica lags behind a server that says that it did nothing', staleLooks: 1 },
  },
  {
    without: [],
    breaks: paid,
    world: {
      ...anyMoment,
      name: 'journal and mirror are put back while a request is under way',
      mirror: 'put back',
      processes: 1,
      faults: 1,
      kinds: ['under_way'],
    },
  },
];

const none = { approvals: 2, denials: 0, resends: 0, times: 0, dismissals: 0 };
const denial: ApprovalWorld = { name: 'approvals, and a denial', needed: 1, most: { ...none, denials: 1 + bound } };
const time: ApprovalWorld = { name: 'approvals that expire', needed: 1, most: { ...none, times: 1 + bound } };
const again: ApprovalWorld = { name: 'approvals, and a row sent again', needed: 1, most: { ...none, resends: 1 } };
const dismissal: ApprovalWorld = {
  name: 'approvals of somebody who is dismissed',
  needed: 1,
  most: { ...none, dismissals: 1 },
};
export const approvalWorlds: readonly ApprovalWorld[] = [
  denial,
  time,
  again,
  dismissal,
  { name: 'two approvers', needed: 2, most: { ...none, approvals: 3 + bound, times: 1, denials: 1 } },
];

const unapproved = 'nothing_without_approval';
export const approvalCases: readonly Case<ApprovalGuard, ApprovalWorld>[] = [
  { without: ['approved_at_claim'], breaks: unapproved, world: denial },
  { without: ['approved_at_sending'], breaks: unapproved, world: denial },
  { without: ['approval_of_content'], breaks: unapproved, world: again },
  { without: ['approval_expires'], breaks: unapproved, world: time },
  { without: ['denial_ends'], breaks: unapproved, world: denial },
  { without: ['not_by_a_maker'], breaks: unapproved, world: denial },
  { without: ['active_approver'], breaks: unapproved, world: dismissal },
  { without: ['used_once'], breaks: unapproved, world: denial },
];
/** What one person sends alone is added up at the claim, which is not part of this world. */
export const secondLinesOfApproval: readonly ApprovalGuard[] = ['claimed_as_it_is'];
