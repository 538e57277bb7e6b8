/** Three presets of the switches, from a server by the book to one that fails in every way. */
import { type Behaviour, defaultBehaviour } from './behaviour.ts';

export const chaosNames = ['calm', 'rough', 'storm'] as const;
export type Chaos = (typeof chaosNames)[number];

/** What each is for, as the command line's help says it. */
export const chaosMeanings: Readonly<Record<Chaos, string>> = {
  calm: 'no faults, quiet data, everything by the reference',
  rough: 'a few of every hundred answers fail in some way, values change their form; the data stays quiet',
  storm: 'more of it, with a rate limit, hangs, shifted days and data that changes under the reader',
};

const rough: Partial<Behaviour> = {
  page_max: 500,
  sort_ties: 'random',
  numbers_as_strings: 0.2,
  flags_as_booleans: 0.1,
  flags_as_strings: 0.1,
  empty_objects_as_arrays: 0.3,
  unknown_fields: 0.05,
  latency_jitter: 3,
  fault_streak: 3,
  read_error_500: 0.01,
  read_error_502: 0.01,
  read_error_503: 0.01,
  read_html: 0.01,
  read_reset_before: 0.01,
  read_reset_middle: 0.01,
  read_truncated: 0.01,
  read_empty_body: 0.01,
  write_error_500: 0.01,
  write_error_503: 0.01,
  write_reset_before: 0.01,
  write_commit_500: 0.02,
  write_commit_reset: 0.01,
  write_commit_truncated: 0.01,
};

const storm: Partial<Behaviour> = {
  ...rough,
  page_max: 200,
  date_end: 'day',
  timezone_minutes: 330,
  rate_limit: 600,
  rate_window: 10,
  latency_jitter: 10,
  churn_inserts: 0.1,
  churn_updates: 0.2,
  churn_deletes: 0.1,
  churn_backdated: 0.2,
  read_error_500: 0.02,
  read_error_502: 0.02,
  read_error_503: 0.02,
  read_too_many: 0.01,
  read_html: 0.02,
  read_reset_before: 0.02,
  read_reset_middle: 0.02,
  read_truncated: 0.02,
  read_hang: 0.002,
  read_empty_body: 0.02,
  write_error_500: 0.02,
  write_error_502: 0.02,
  write_too_many: 0.02,
  write_html: 0.02,
  write_hang: 0.002,
  write_commit_500: 0.04,
  write_commit_html: 0.02,
  write_commit_reset: 0.03,
  write_commit_truncated: 0.02,
  write_commit_hang: 0.002,
  write_commit_late: 0.01,
};

/** Every switch as the preset has it. */
export function behaviourOf(chaos: Chaos): Behaviour {
  switch (chaos) {
    case 'calm':
      return defaultBehaviour;
    case 'rough':
      return { ...defaultBehaviour, ...rough };
    case 'storm':
      return { ...defaultBehaviour, ...storm };
  }
}
