import { describe, expect, test } from 'vitest';
import {
  hiderOf,
  namesPassword,
  passwordsIn,
  SecretWords,
  withoutPasswordFields,
  withoutPasswords,
} from '../../src/model/secret.ts';
import { soonMs } from '../support/part.ts';

describe('a password', () => {
  test.each([
    ['{"password":"hunter2"}', '{"password":"****"}'],
    ['{"user": {"newPassword" : "a\\"b\\\\c"}}', '{"user": {"newPassword" : "****"}}'],
    ['{"password_hash":"$2y$10$abc"}', '{"password_hash":"****"}'],
    ['{"trace":"{\\"password\\":\\"hunter2\\"}"}', '{"trace":"{\\"password\\":\\"****\\"}"}'],
    ['{"PASSWORD":"cut off', '{"PASSWORD":"cut off'],
    ['{"passwd":"hunter2","pwd":"hunter2"}', '{"passwd":"****","pwd":"****"}'],
    ['{"passphrase":"hunter2","PassWord":"hunter2"}', '{"passphrase":"****","PassWord":"****"}'],
    [String.raw`{"p\u0061ssword":"hunter2"}`, '{"password":"****"}'],
    [String.raw`{"p\u0061\u0073s":"\u0068unter2"}`, '{"pass":"****"}'],
    [
      '{"db.pass":"hunter2","smtp_pass":"x","pin_pwd":48151623}',
      '{"db.pass":"****","smtp_pass":"****","pin_pwd":"****"}',
    ],
    [
      String.raw`{"a":"{\"b\":\"{\\\"pwd\\\":\\\"hun/ter2\\\"}\"}"}`,
      String.raw`{"a":"{\"b\":\"{\\\"pwd\\\":\\\"****\\\"}\"}"}`,
    ],
    ['Your password is <b>k3Xw9qLm</b>.', 'Your password is <b>****</b>.'],
    ['created with the password: k3Xw9qLm', 'created with the password: ****'],
  ])('that is labelled as one is hidden: %s', (text, clean) => {
    expect(withoutPasswords(text)).toBe(clean);
  });

  test.each([
    'password: The password must be at least 8 characters.',
    '{"password":"The password is too short."}',
    '{"errors":{"password":["is required"]}}',
    '{"password_changed_at":"2026-01-06T10:00:00Z","has_password":true,"password":""}',
    'the password is required',
    'password: must contain a digit',
  ])('is not assumed in text about one: %s', (text) => {
    expect(withoutPasswords(text)).toBe(text);
  });

  test('in a sentence stays if only fields are cleaned', () => {
    const text = '{"content":"Your password is k3Xw9qLm","password":"x"}';
    expect(withoutPasswordFields(text)).toBe('{"content":"Your password is k3Xw9qLm","password":"****"}');
  });

  test('is hidden in lists and with spaces if records are cleaned', () => {
    const text = '{"passphrase":"correct horse","pwd":{"old":["a b",{"x":"c","n":1}]},"id":7,"compass":"north"}';
    const clean = '{"passphrase":"****","pwd":{"old":["****",{"x":"****","n":1}]},"id":7,"compass":"north"}';
    expect(withoutPasswordFields(text, true)).toBe(clean);
  });

  test('of many megabytes, or after millions of backslashes, is hidden in bounded time', () => {
    const long = 'x'.repeat(20_000_000);
    expect(withoutPasswordFields(`{"password":"${long}"}`)).toBe('{"password":"****"}');
    const strokes = '\\'.repeat(4_000_000);
    expect(withoutPasswordFields(`{"password":"${strokes}"}`)).toBe('{"password":"****"}');
    expect(withoutPasswords(`${strokes}\\u0061 password`)).toBe(`${strokes}a password`);
  });

  test.each(['Password', 'new-password', 'PASSWD', 'userPwd', 'pass', 'root_pass', 'password2', 'Passwort'])(
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
    const text = `pa/s"&w ${encodeURIComponent('pa/s"&w')} ${JSON.stringify('pa/s"&w')} pa\\/s\\"&w pa/s&quot;&amp;w abc`;
    // A word as short as abc is part of too many other words.
    expect(words.redact(text)).toBe('**** **** "****" **** **** abc');
  });

  const key = 'sk-live/Zq81+kkW-0099';
  const inBase64 = (text: string) => Buffer.from(text).toString('base64');
  test.each([
    ['capitals', key.toUpperCase()],
    ['small letters', key.toLowerCase()],
    ['hexadecimal', Buffer.from(key).toString('hex').toUpperCase()],
    ['base64', inBase64(key)],
    ['base64 after one byte', inBase64(`:${key}`)],
    ['base64 after two bytes', inBase64(`a:${key}:b`)],
    ['base64 of a header', inBase64(`Authorization: Bearer ${key}`)],
    ['base64 in JSON', inBase64(`id=${key}`).replaceAll('/', '\\/')],
    ['base64 for addresses', Buffer.from(`?key=${key}`).toString('base64url')],
  ])('are hidden in %s', (_, written) => {
    const words = new SecretWords();
    words.add(key);
    const seen = words.redact(`<${written}>`);
    expect(seen).toContain('****');
    // Base64 characters at the edges, which also encode other text, may stay.
    expect(seen.replace('****', '').length).toBeLessThan(written.length - key.length + 6);
  });

  const signs = 'aB3/x=Y+9\'&"<_-.é7';
  const each = (write: (code: number) => string) =>
    signs.replaceAll(/[^A-Za-z\d]/g, (sign) => write(sign.charCodeAt(0)));
  const mustache = each((code) =>
    /[-_.+é]/.test(String.fromCharCode(code)) ? String.fromCharCode(code) : `&#x${code.toString(16).toUpperCase()};`,
  );
  test.each([
    ['entities in hexadecimal', each((code) => `&#x${code.toString(16)};`)],
    ['entities with capitals and zeros', each((code) => `&#X00${code.toString(16).toUpperCase()};`)],
    ['decimal entities', each((code) => `&#${code};`)],
    ['entities as templates write them', mustache],
    ['entities within JSON that has no &', mustache.replaceAll('&', String.raw`\u0026`)],
    ['entities that were escaped again', mustache.replaceAll('&', '&amp;')],
    ['named entities', signs.replaceAll('&', '&amp;').replaceAll('/', '&sol;').replaceAll('=', '&equals;')],
    ['escapes of JSON', each((code) => String.raw`\u${code.toString(16).padStart(4, '0')}`)],
    ['escapes of a URL', encodeURIComponent(signs).replaceAll("'", '%27')],
  ])('are hidden in %s', (_, written) => {
    // A short word as well.
    for (const secret of [signs, 'aB3/x=Y']) {
      const end = secret === signs ? written : written.slice(0, written.indexOf('Y') + 1);
      const words = new SecretWords();
      words.add(secret);
      expect(words.redact(`<${end}>`)).toBe('<****>');
    }
  });

  test('with entities are removed from a page of records quickly', () => {
    const words = new SecretWords();
    words.add(signs);
    const page = `{"html":"${'&#x2F;aB3&#x2F;'.repeat(500_000)}"}`;
    const started = performance.now();
    expect(words.redact(page)).toBe(page);
    expect(performance.now() - started).toBeLessThan(soonMs);
  });

  test('that are short are hidden only exactly as they are', () => {
    expect(hiderOf(['Anna1'])('Anna1 anna1')).toBe('**** anna1');
  });
});
