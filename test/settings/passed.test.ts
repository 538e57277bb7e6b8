import { expect, test } from 'vitest';
import { passedToChild, receivedByChild } from '../../src/settings/passed.ts';
import { readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('settings passed to another process as a message are unchanged, secrets included', () => {
  const environment = {
    ADMIN_MIRROR_BASE_URL: 'https://app.example.com',
    ADMIN_MIRROR_API_KEY: 'secret-key',
    HTTPS_PROXY: 'http://somebody:word@proxy.example.com:3128',
    ADMIN_MIRROR_SERVE_BEHIND_PROXY: 'https://console.example.com/mirror',
    ADMIN_MIRROR_BULK_MAX_ROW: '12.50',
  };
  const reading = readSettings({ flags: [], environment, folder: temporaryFolder() });
  const settings = settingsFrom(reading);
  const passed = structuredClone(passedToChild({ reading, servers: [] }));
  const received = settingsFrom(receivedByChild(passed).reading);
  expect(received).toEqual(settings);
  expect(received.api.key?.reveal()).toBe('secret-key');
  expect(received.network.proxy?.reveal()).toBe(settings.network.proxy?.reveal());
  expect(String(received.serve.behindProxy)).toBe('https://console.example.com/mirror');
});
