import { expect, test } from 'vitest';
import { bodyScrubber } from '../../src/api/redact.ts';

const key = 'sk_live_4f9a8c7b6d5e';
const { scrub, isClean } = bodyScrubber(key);

/** A list with a text that ends at the given length, just before `rest`. */
function bodyOf(length: number, rest: string): string {
  const before = '{"data":[{"id":1,"note":"';
  return `${before}${'x'.repeat(length - before.length)}${rest}","first_name":"Ann","last_name":"Lee"}]}`;
}

// Around the place where a long body is cut into pieces.
const lengths = Array.from({ length: 200 }, (_, at) => 49_900 + at);

test.each([
  ['the key', key],
  ['the key in capitals', key.toUpperCase()],
  ['the key in base64', Buffer.from(key).toString('base64')],
  ['a field called a password', '","password":"k3Xw9q'],
  ['a field called a password, in JSON that is text', String.raw`{\"user_password\": \"k3Xw9q\"}`],
])('%s is noticed anywhere in a long body', (_, written) => {
  for (const length of lengths) {
    const body = bodyOf(length, written);
    expect(isClean(Buffer.from(body)), `behind ${length} bytes`).toBe(false);
    expect(scrub(body, 'GET')).not.toBe(body);
  }
});

test('a body without secrets is kept as it is, whatever the length and characters of its texts', () => {
  for (const text of ['', 'é😀', 'the password is not given', String.raw`\u00e9 \/`]) {
    for (const length of [...lengths, 400_000]) {
      const body = bodyOf(length, text);
      expect(isClean(Buffer.from(body))).toBe(true);
      expect(scrub(body, 'GET')).toBe(body);
    }
  }
});

test.each([
  ['bytes that are no UTF-8', Buffer.from([0x22, 0xe9, 0x22])],
  ['a byte order mark', Buffer.from('\uFEFF{}')],
])('%s make a body not clean', (_, bytes) => {
  expect(isClean(bytes)).toBe(false);
});

test('a key that looks like the end of a member is noticed even if the body is cut within it', () => {
  const strange = 'sk_live",4f9a8c7b6d5e';
  expect(bodyScrubber(strange).isClean(Buffer.from(bodyOf(50_000, strange)))).toBe(false);
});
