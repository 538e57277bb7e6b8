import { describe, expect, test } from 'vitest';
import { namesPassword, passwordsIn, SecretWords, withoutPasswords } from '../../src/model/secret.ts';

describe('a password', () => {
  test.each([
    ['{"password":"hunter2"}', '{"password":"****"}'],
    ['{"user": {"newPassword" : "a\\"b\\\\c"}}', '{"user": {"newPassword" : "****"}}'],
    ['{"password_hash":"$2y$10$abc"}', '{"password_hash":"****"}'],
    ['{"PASSWORD":"cut off', '{"PASSWORD":"****"'],
    ['{"passphrase":"correct horse","compass":"north"}', '{"passphrase":"****","compass":"north"}'],
    ['{"passwd":"hunter2","pwd":"hunter2"}', '{"passwd":"****","pwd":"****"}'],
    ['{"passphrase":"hunter2","PassWord":"hunter2"}', '{"passphrase":"****","PassWord":"****"}'],
  ])('that is labelled as one is hidden: %s', (text, clean) => {
    expect(withoutPasswords(text)).toBe(clean);
  });

  test.each([
    'password: The password must be at least 8 characters.',
    '{"errors":{"password":["is required"]}}',
    '{"password_changed_at":"2026-01-06T10:00:00Z","has_password":true,"password":""}',
    'the password is required',
    'password: must contain a digit',
  ])('is not assumed in text about one: %s', (text) => {
    expect(withoutPasswords(text)).toBe(text);
  });

  test.each(['Password', 'new-password', 'PASSWD', 'userPwd', 'password2', 'Passwort'])(
    'is expected in a field called %s',
    (name) => expect(namesPassword(name)).toBe(true),
  );

  test.each(['password_changed_at', 'has_passwords', 'compass', 'bypass', 'passport', 'pwd_hint', 'forward'])(
    'is not expected in a field called %s',
    (name) => expect(namesPassword(name)).toBe(false),
  );

  test('is found in a body at any depth', () => {
    expect(passwordsIn({ password: 'a', inner: [{ plainPassword: 'b', name: 'c' }], password_set: 'd' })).toEqual([
      'a',
      'b',
    ]);
  });
});

describe('secret words', () => {
  test('are hidden in every encoding of text', () => {
    const words = new SecretWords();
    words.add('pa/s"&w');
    words.add('abc');
    const text = `pa/s"&w ${encodeURIComponent('pa/s"&w')} ${JSON.stringify('pa/s"&w')} abc`;
    // A word as short as abc is part of too many other words.
    expect(words.redact(text)).toBe('**** **** "****" abc');
  });

  const key = 'sk-live/Zq81+kkW-0099';
  const inBase64 = (text: string) => Buffer.from(text).toString('base64');
  test.each([
    ['base64', inBase64(key)],
    ['base64 after one byte', inBase64(`:${key}`)],
    ['base64 after two bytes', inBase64(`a:${key}:b`)],
    ['base64 of a header', inBase64(`Authorization: Bearer ${key}`)],
    ['base64 for addresses', Buffer.from(`?key=${key}`).toString('base64url')],
  ])('are hidden in %s', (_, written) => {
    const words = new SecretWords();
    words.add(key);
    const seen = words.redact(`<${written}>`);
    expect(seen).toContain('****');
    // Base64 characters at the edges, which also encode other text, may stay.
    expect(seen.replace('****', '').length).toBeLessThan(written.length - key.length + 6);
  });
});
