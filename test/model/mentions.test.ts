import { describe, expect, test } from 'vitest';
import { addressesIn, mentionsOf } from '../../src/model/identity.ts';

describe('a person in a text', () => {
  const mentions = mentionsOf(['Ann', 'o\'brien "x"', 'a+b@mail.example', '', '  ']);

  test.each([
    'no user Ann here',
    'ann',
    '{"first_name":"Ann"}',
    'Ann’s',
    JSON.stringify({ last_name: 'O\'Brien "x"' }),
    'GET /users?filter[email]=a%2Bb%40mail.example was refused',
    'A+B@MAIL.EXAMPLE',
  ])('is found in %j', (text) => expect(mentions(text)).toBe(true));

  test.each(['Anna', 'annual', 'Joann', 'Ännänn', 'a+b@mail.example2', '', null, 5])('is not found in %j', (text) =>
    expect(mentions(text)).toBe(false),
  );

  test('is found nowhere if nothing is known of the person', () => {
    expect(mentionsOf([])('anything')).toBe(false);
    expect(mentionsOf([' '])(' ')).toBe(false);
  });

  test('can have a name with regular expression syntax and broken characters', () => {
    const strange = '(.*)[\\]{}^$|+?/\ud800';
    expect(mentionsOf([strange])('anything')).toBe(false);
    expect(mentionsOf([strange])(`it was ${strange}`)).toBe(true);
  });
});

describe('an address', () => {
  const isAddressed = addressesIn(['Ann@Mail.example']);

  test.each(['ann@mail.example', 'Ann B. <ANN@mail.example>', 'x@y.example, ann@mail.example', ' ann@mail.example '])(
    'is found in %j',
    (field) => expect(isAddressed(field)).toBe(true),
  );

  test.each(['joann@mail.example', 'ann@mail.example.org', '', null, 5])('is not found in %j', (field) =>
    expect(isAddressed(field)).toBe(false),
  );
});
