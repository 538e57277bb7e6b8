import { expect, test } from 'vitest';
import { databaseText, parseDatabaseAddress } from '../../src/model/address.ts';
import { withoutPassword } from '../../src/model/secret.ts';

test.each([
  ['postgresql://m@db.example.com/shop', { host: 'db.example.com', port: 5_432, tls: 'verified' }],
  ['postgres://m@db.example.com:6000/shop?sslmode=require', { port: 6_000, tls: 'required' }],
  ['postgresql://m@db.example.com/shop?sslmode=disable', { tls: 'off' }],
  ['postgresql://m@127.0.0.1/shop', { host: '127.0.0.1', tls: 'off' }],
  ['postgresql://m@127.0.0.1/shop?sslmode=verify-full', { tls: 'verified' }],
  ['postgresql://m@[::1]:6000/shop', { host: '::1', tls: 'off' }],
  ['postgresql://m@/shop?host=/var/run/postgresql', { host: '/var/run/postgresql', tls: 'off' }],
  ['postgresql://a%40b@db.example.com/my%20shop', { user: 'a@b', database: 'my shop' }],
])('%s is a database address, with TLS by default unless it is local', (text, parts) => {
  expect(parseDatabaseAddress(text)).toMatchObject(parts);
});

test.each([
  'postgresql://m:secret@db.example.com/shop',
  'postgresql://db.example.com/shop',
  'postgresql://m@/shop',
  'postgresql://m@db.example.com/shop?host=/var/run',
  'postgresql://m@db.example.com',
  'postgresql://m@db.example.com/shop?sslmode=perhaps',
  'postgresql://m@db.example.com/shop?options=-csynchronous_commit%3Doff',
  'https://m@db.example.com/shop',
  'db.example.com',
])('%s is not a database address', (text) => {
  expect(parseDatabaseAddress(text)).toBeUndefined();
});

test('an address is shown as it was given, but never with a password', () => {
  for (const text of [
    'postgresql://m@db.example.com:5432/shop',
    'postgresql://m@[::1]:6000/shop',
    'postgresql://m@/shop?host=/var/run/postgresql',
  ]) {
    const address = parseDatabaseAddress(text);
    expect(address && databaseText(address)).toBe(text);
  }
  expect(withoutPassword('postgresql://m:se:c@ret@db/shop')).toBe('postgresql://m:****@db/shop');
  expect(withoutPassword('postgresql://m@db/shop?password=secret&x=1')).toBe(
    'postgresql://m@db/shop?password=****&x=1',
  );
});
