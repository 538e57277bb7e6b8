import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { withServer } from '../../src/setup/config-edit.ts';
import { parseConfigFile } from '../../src/settings/config-file.ts';

const server = {
  profile: undefined,
  baseUrl: 'https://x.example.com',
  keyFile: 'secrets/my key: #1',
  insecureHttp: false,
};

const texts = [
  '',
  '# only\n',
  'api:\n',
  'api:\n  # nothing yet\nworker:\n  listen: off\n',
  'api: {requests_per_second: 5}\n',
  'api:\n  requests_per_second: 5 # slow\n  base_url: https://old.example.com # old\n',
  'profiles:\n',
  'profiles:\n  staging:\n',
  'profiles:\n  staging:\n    api:\n  # the other\n  other:\n    api:\n      base_url: https://other.example.com\n',
];

describe('a server written into a config file', () => {
  test.each(texts)('is written where it is read, and keeps the rest of the file: %j', (text) => {
    const api = { base_url: server.baseUrl, key_file: server.keyFile };
    const before = (parse(text) ?? {}) as { api?: object; worker?: object; profiles?: { other?: object } };
    for (const profile of [undefined, 'staging']) {
      const changed = withServer(text, { ...server, profile });
      expect(parseConfigFile(changed, 'x').problems).toEqual([]);
      const read = parse(changed) as { api?: object; worker?: object; profiles?: { staging?: object; other?: object } };
      expect(profile === undefined ? read : (read.profiles?.staging ?? {})).toMatchObject({ api });
      expect(read.worker).toEqual(before.worker);
      expect(read.profiles?.other).toEqual(before.profiles?.other);
      for (const comment of text.match(/#.*/g) ?? []) expect(changed).toContain(comment);
    }
  });

  test('has no key file if the key comes from elsewhere', () => {
    const text = 'api:\n  key_file: old\n  base_url: https://old.example.com\n';
    expect(parse(withServer(text, { ...server, keyFile: null }))).toEqual({ api: { base_url: server.baseUrl } });
  });
});
