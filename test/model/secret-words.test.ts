import { describe, expect, test } from 'vitest';
import { passwordsIn, SecretWords, withoutPasswordFields, withoutPasswords } from '../../src/model/secret-words.ts';

describe('a password', () => {
  test.each([
    ['{"password":"hunter2"}', '{"password":"****"}'],
    ['{"user": {"newPassword" : "a\\"b\\\\c"}}', '{"user": {"newPassword" : "****"}}'],
    ['{"password_hash":"$2y$10$abc"}', '{"password_hash":"****"}'],
    ['{"trace":"{\\"password\\":\\"hunter2\\"}"}', '{"trace":"{\\"password\\":\\"****\\"}"}'],
    ['{"PASSWORD":"cut off', '{"PASSWORD":"cut off'],
    ['Your password is <b>k3Xw9qLm</b>.', 'Your password is <b>****</b>.'],
    ['created with the password: k3Xw9qLm', 'created with the password: ****'],
  ])('that stands under its name is hidden: %s', (text, clean) => {
    expect(withoutPasswords(text)).toBe(clean);
  });

  test.each([
    'password: The password must be at least 8 characters.',
    '{"password":"The password is too short."}',
    '{"errors":{"password":["is required"]}}',
    '{"password_changed_at":"2026-01-06T10:00:00Z","has_password":true,"password":""}',
    'the password is required',
    'password: must contain a digit',
  ])('is not seen in words about one: %s', (text) => {
    expect(withoutPasswords(text)).toBe(text);
  });

  test('that a sentence tells stays where sentences are data', () => {
    const text = '{"content":"Your password is k3Xw9qLm","password":"x"}';
    expect(withoutPasswordFields(text)).toBe('{"content":"Your password is k3Xw9qLm","password":"****"}');
  });

  test('is found in a body however deep it stands', () => {
    expect(passwordsIn({ password: 'a', inner: [{ plainPassword: 'b', name: 'c' }], password_set: 'd' })).toEqual([
      'a',
      'b',
    ]);
  });
});

describe('secret words', () => {
  test('are hidden in every form that text takes on', () => {
    const words = new SecretWords();
    words.add('pa/s"&w');
    words.add('abc');
    const text = `pa/s"&w ${encodeURIComponent('pa/s"&w')} ${JSON.stringify('pa/s"&w')} pa\\/s\\"&w pa/s&quot;&amp;w abc`;
    // What is as short as abc stands in too many words.
    expect(words.redact(text)).toBe('**** **** "****" **** **** abc');
  });
});
