import { expect, test } from 'vitest';
import {
  correctionOf,
  mayHaveLost,
  newToken,
  tokenAtEnd,
  tokenLength,
  tokenLike,
  withToken,
  saysCorrection,
} from '../../src/bulk/token.ts';

const token = 'am:abcdefghijkl';

test('a token has 12 random letters and is unique', () => {
  const tokens = Array.from({ length: 5_000 }, newToken);
  for (const each of tokens) expect(each).toMatch(/^am:[a-z2-7]{12}$/);
  expect(new Set(tokens).size).toBe(tokens.length);
  // Each of the 32 letters occurs about 1,900 times in 60,000; 1,500 is nine standard deviations away.
  const times = Array.from('abcdefghijklmnopqrstuvwxyz234567', (letter) => tokens.join('').split(letter).length);
  expect(Math.min(...times)).toBeGreaterThan(1_500);
});

test('a token is added at the end of a text, or alone, and takes exactly the reserved length', () => {
  expect(withToken('Bonus', token)).toBe(`Bonus ${token}`);
  expect(withToken('', token)).toBe(token);
  expect(withToken(null, token)).toBe(token);
  expect(withToken('Bonus', newToken())).toHaveLength('Bonus'.length + tokenLength);
});

test.each([
  [token, token],
  [`Bonus ${token}`, token],
  ['Bonus AM:ABCDEFGHIJKL', token],
  [`Bonus ${token} \n`, token],
  [`<p>Hello</p>\n<!-- ${token} -->`, token],
  [`<!-- ${token}  -->\n`, token],
  [`&lt;!-- ${token} --&gt;`, token],
  ['am:zzzzzzzzzzzz, taken back am:abcdefghijkl', token],
  [`Bonus${token}`, undefined],
  [`te${token}`, undefined],
  [`${token}m`, undefined],
  [`${token}-->`, undefined],
  [`Bonus ${token} again`, undefined],
  ['am:abcdefghijk', undefined],
  ['am:abcdefghijk1', undefined],
  ['', undefined],
])('the token of %j is %s', (text, found) => {
  expect(tokenAtEnd(text)).toBe(found);
});

test.each([
  ['Bonus', true],
  ['', true],
  ['Bonus am:', true],
  ['Bonus am:abcdefghijk', true],
  ['Bonus AM:ABC', true],
  ['am:abc', true],
  ['am:xyz', false],
  ['Bonus am:abd', false],
  ['about am:xyz of May', true],
  ['Team:xyz', true],
  // A complete token at the end is not the rest of another one.
  [`Bonus ${token}`, false],
  ['Bonus am:zzzzzzzzzzzz', false],
])('%j may have lost the end of the token: %s', (text, may) => {
  expect(mayHaveLost(text, token)).toBe(may);
});

test.each([
  [`Refund ${token}`, token],
  ['see am:abcd, please', 'am:abcd,'],
  ['Team:blue bonus', 'Team:blue'],
  ['AM:x', 'AM:x'],
  ['am:2', 'am:2'],
  ['9 am: breakfast', undefined],
  ['am:1', undefined],
  ['Bonus', undefined],
])('the part of %j that looks like a token is %s', (text, like) => {
  expect(tokenLike(text)).toBe(like);
});

test('a correction says which row it corrects, and is known by that', () => {
  expect(correctionOf('am:abcdefghijkl')).toBe('Correction of am:abcdefghijkl');
  expect(saysCorrection(`${correctionOf('am:abcdefghijkl')}, made 2 times`, 'am:abcdefghijkl')).toBe(true);
  expect(saysCorrection(correctionOf('am:abcdefghijkl'), 'am:bbbbbbbbbbbb')).toBe(false);
});
