import { describe, expect, test } from 'vitest';
import { type Role, roles } from '../../src/model/actor.ts';
import type { Access } from '../../src/web/route.ts';
import { routes } from '../../src/web/routes.ts';
import { startConsole } from '../support/console.ts';
import { sample } from '../support/part.ts';

/** Who may use a route, repeated here so that a mistake in the table's own rule is found. */
function expectedToPass(access: Access, role: Role | null): boolean {
  if (access === 'anybody') return true;
  return role !== null && (access === 'signed-in' || new Set(access).has(role));
}

/** The route with parameters that name nothing that exists. */
function pathOf(path: string): string {
  return path.replaceAll(/:\w+/g, 'nothing');
}

describe('every route', () => {
  test('is open to the roles in its table, and to nobody else', async () => {
    const { browser } = await startConsole();
    for (const role of sample([null, ...roles], 2)) {
      const { get, post } = await browser(`has-${role ?? 'none'}`, role === null ? null : [role]);
      for (const { method, path, access } of routes) {
        // Signing out would end the session for the other routes.
        if (path === '/sign-out') continue;
        const response = await (method === 'GET' ? get : post)(pathOf(path));
        await response.arrayBuffer();
        const isRefused =
          response.status === 403 ||
          (role === null && response.status === 401 && path !== '/sign-in') ||
          (response.status === 303 && response.headers.get('location')?.startsWith('/sign-in') === true);
        expect({ role, method, path, isRefused }).toEqual({
          role,
          method,
          path,
          isRefused: !expectedToPass(access, role),
        });
      }
    }
  });

  test('of a form redirects to the page with the form if its address is opened', async () => {
    const { browser } = await startConsole();
    const { get } = await browser('anna', [...roles]);
    const pages = routes.filter(({ method }) => method === 'GET').map(({ path }) => pathOf(path));
    for (const { path } of routes.filter(({ method }) => method === 'POST')) {
      const opened = pathOf(path);
      if (pages.includes(opened)) continue;
      const response = await get(`${opened}?show=all`);
      const to = response.headers.get('location') ?? '';
      expect({ opened, status: response.status, isPage: pages.includes(to), isAbove: opened.startsWith(to) }).toEqual({
        opened,
        status: 303,
        isPage: true,
        isAbove: true,
      });
    }
  });

  test('that changes something refuses a form from another site or without an origin', async () => {
    const { browser, url } = await startConsole();
    const { post, cookie } = await browser('alice', [...roles]);
    for (const { method, path } of routes) {
      if (method === 'GET') continue;
      const strange = [
        { origin: 'https://evil.example' },
        { origin: url.replace('http:', 'https:') },
        { 'sec-fetch-site': 'cross-site' },
        { 'sec-fetch-site': 'none' },
      ];
      for (const headers of strange) expect((await post(pathOf(path), {}, headers)).status).toBe(403);
      const silent = await fetch(`${url}${pathOf(path)}`, { method: 'POST', headers: { cookie } });
      expect(silent.status).toBe(403);
    }
  });

  test('that changes something is a 404 if the console is read-only', { tags: 'full' }, async () => {
    const { browser } = await startConsole({ address: { isReadOnly: true } });
    const { post } = await browser('alice', [...roles]);
    for (const { method, path, changes } of routes) {
      if (method === 'GET') continue;
      const { status } = await post(pathOf(path));
      expect({ path, isThere: status !== 404 }).toEqual({ path, isThere: changes !== true });
    }
  });
});
