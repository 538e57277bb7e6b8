/**
 * What the console calls the commands and flags that a message names in backquotes. A message names what to do once, as the command
 * line has it; this table has the browser's word for each.
 */

/**
 * @param operands what follows the name of the command
 * @param here the batch whose page shows the message
 */
type Words = (operands: readonly string[], here?: string) => string;

const pageOf = (batch: string, here?: string): string => (batch === here ? 'this page' : `the page of batch ${batch}`);
const ofBatch: Words = ([batch], here) => (batch === undefined ? 'the page Batches' : pageOf(batch, here));
const people: Words = () => 'the page People';
const changeBalance: Words = ([user = '', ...flags]) => {
  const [, type, amount, text] = /^--type (\w+) --amount (\S+) --description (".*")$/.exec(flags.join(' ')) ?? [];
  const what = type === undefined ? '' : `: ${type} ${amount}, with the reason ${text}`;
  return `“Change the balance” on the page of user ${user}${what}`;
};
const startSync: Words = () => '“Sync” on the page Runs';

/** Commands of batches and accounts, with any operands. */
const byPath: Readonly<Record<string, Words>> = {
  'bulk status': ofBatch,
  'bulk results': ofBatch,
  'bulk submit': ofBatch,
  'bulk approve': ofBatch,
  'bulk apply': ofBatch,
  'bulk resume': ([batch = '-'], here) =>
    `“Go on”${batch.startsWith('-') || batch === here ? '' : ` on ${pageOf(batch)}`}`,
  'bulk discard': () => '“Discard the rest” there',
  'bulk resolve': ([batch = '', , row], here) => `the page of row ${row}${batch === here ? '' : ` of batch ${batch}`}`,
  'bulk template': () => 'the template behind “New batch”',
  'bulk reconcile': () => 'a decision about the journal, which an operator records',
  'bulk run': () => '“New batch” on the page Batches',
  'users update-balance': changeBalance,
  'users delete': ([user = '']) => `a batch “delete” with user ${user}`,
  'people add': people,
  'people list': people,
  'people role': people,
  'people os-user': people,
};

/** Commands that the console has without any flags, or with exactly these. */
const whole: Readonly<Record<string, Words>> = {
  'bulk reconcile --adopt': () => '“Compare and adopt” (behind “Compare with the server”)',
  restore: () => 'putting a backup back, which an operator does',
  schema: () => 'the page SQL',
  doctor: () => 'the check of the set-up (“doctor”, which an operator runs)',
  'store copy': () => 'the move of the journal, which an operator ends',
  schedule: () => 'the worker, which an operator starts,',
  'schedule --once NAME': () => 'an operator',
  'sync --allow-deletions': () => 'a sync with that permission, which an operator gives,',
  'status --verbose': () => 'the page of the last run',
  publish: () => 'publishing, which an operator starts,',
  'publish --full': () => 'publishing anew, which an operator does,',
  config: () => 'the list of settings, which an operator can show,',
  reports: () => 'the page Reports',
  'query --chart': () => 'the page SQL',
  'bulk reconcile --accept-journal --reason "…"': () => 'a decision about the journal, which an operator records',
  sync: startSync,
  'sync --full': startSync,
  status: () => 'the page Home',
  verify: () => '“Verify” on the page Runs',
  'audit --verify': () => '“Check the whole chain” on the page Audit',
};

const flags: Readonly<Record<string, string>> = {
  '--again --reason "…"': 'the reason for sending it again, under “More” or “It was sent before”',
  '--sheet': 'the name of the sheet, under “More”',
  '--allow-force': 'the box for that, under “More”',
};

/** Returns what the browser calls it; undefined if the console has no such thing. */
export function consoleWords(code: string, here?: string): string | undefined {
  const [program, ...words] = code.split(' ');
  if (program !== 'admin-mirror') return flags[code];
  const [first = '', second = '', ...operands] = words;
  return whole[words.join(' ')]?.([]) ?? byPath[`${first} ${second}`]?.(operands, here);
}
