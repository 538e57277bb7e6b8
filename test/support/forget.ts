/** A sandbox with one person whose texts are found nowhere else, and a search for them in the files of a mirror. */
import { readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Sandbox } from './bent/sandbox.ts';

/** The person to forget, and users whose emails went to the person. */
export const person = 7;
export const helper = 8;

/** Every text that identifies the person, now or before. */
export const personalTexts = [
  'zephyrine.quillfeather',
  'zephyrine@quill-feather.example',
  'Zephyrine',
  'Quillfeather',
  'zq-before@quill-feather.example',
  'Zephora',
  'zq-secret-preference',
  'zq-order-domain.example',
  'zq-payment-reference',
  'Zq Lane 77',
  'zq-mail-by-user',
  'zq-mail-by-address',
  'zq-mail-to-old-address',
  'zq-mail-deleted',
  'zq-mail-changed',
  '2026-03-11T10:19:59.123456Z',
  // The index of the search keeps words in lower case, without what they begin with in common.
  'phyrine',
  'uillfeather',
] as const;

const old = { first_name: 'Zephora', email: 'zq-before@quill-feather.example' };
const now = {
  username: 'zephyrine.quillfeather',
  email: 'zephyrine@quill-feather.example',
  first_name: 'Zephyrine',
  last_name: 'Quillfeather',
  data: { likes: 'zq-secret-preference' },
  // The newest of all: the stored fingerprint of a page ends with it.
  created_at: '2026-03-11T10:19:59.123456Z',
};

/** Sets the person up as before the first sync, under an older name. Returns the ids of the emails. */
export function placePerson({ control }: Sandbox): Record<'deleted' | 'changed' | 'byUser' | 'byAddress', number> {
  control.update('users', person, { ...now, ...old });
  control.setRelated('users', person, 'orders', [{ id: 501, user_id: person, domain: 'zq-order-domain.example' }]);
  control.setRelated('users', person, 'payments', [
    { id: 'c0ffee', description: 'zq-payment-reference', [now.username]: 1 },
  ]);
  control.setRelated('users', person, 'address', [{ id: 1, street: 'Zq Lane 77' }]);
  control.setRelated('packages', 3, 'orders', [
    { id: 501, user_id: person, domain: 'zq-order-domain.example' },
    { id: 502, user_id: helper, domain: 'another.example' },
  ]);
  const email = (subject: string, fields: object): number =>
    Number(control.insert('emails', { subject, receiver: old.email, user_id: person, ...fields })['id']);
  for (const { id, user_id } of control.dump('emails')) {
    // Emails sent to the generated address of the person.
    if (user_id === person) control.update('emails', Number(id), { receiver: old.email });
  }
  email('zq-mail-to-old-address', { user_id: helper });
  return {
    deleted: email('zq-mail-deleted', {}),
    changed: email('zq-mail-changed', {}),
    byUser: email('zq-mail-by-user', { receiver: 'team@other.example' }),
    byAddress: email('zq-mail-by-address', { user_id: null, receiver: 'Z. <ZEPHYRINE@quill-feather.example>' }),
  };
}

/** Changes the person to the current state. */
export function changePerson({ control }: Sandbox, emails: ReturnType<typeof placePerson>): void {
  control.update('users', person, now);
  control.remove('emails', emails.deleted);
  control.update('emails', emails.changed, { subject: 'nothing about anybody', receiver: now.email });
}

/** The texts found in the files of the mirror, including its log and index. */
export function textsIn(file: string, texts: readonly string[] = personalTexts): string[] {
  const folder = dirname(file);
  const names = readdirSync(folder).filter((name) => name.startsWith(basename(file)));
  const bytes = names.map((name) => readFileSync(join(folder, name)));
  return texts.filter((text) => bytes.some((each) => each.includes(text)));
}
