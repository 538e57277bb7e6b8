/** Actions of people with a keyboard, a mouse and files. */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import type { Sleep } from '../../src/api/gate.ts';
import type { Role } from '../../src/model/actor.ts';
import { hashPassword } from '../../src/people/sign-in.ts';
import { secondMs } from '../../src/model/time.ts';
import type { People } from '../../src/people/people.ts';
import { newAccount, quickCost } from '../support/people.ts';

/** A timeout for a test that does an hour of a person's work, on a busy machine. */
export const storyMs = 180_000;

export const password = 'correct horse battery staple';

/** Adds an account that signs in with the password. */
export async function hire(people: People, name: string, ...roles: Role[]): Promise<void> {
  await people.add(newAccount(name, { roles, password: await hashPassword(password, quickCost) }));
}

export async function signIn(page: Page, name: string): Promise<void> {
  await page.goto('/');
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Home' }).waitFor();
}

/** Clicks, and returns the download. */
export async function downloaded(link: Locator): Promise<{ readonly name: string; readonly text: string }> {
  const [download] = await Promise.all([link.page().waitForEvent('download'), link.click()]);
  return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') };
}

/** Writes the text to a file in the folder; returns its path. */
export function fileOf(folder: string, name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** Drags the file from the desktop over the element and drops it there. */
export async function drop(page: Page, file: string, over: Locator): Promise<void> {
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  if (box === null) throw new Error('the place is not on the page');
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: [file], dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, x: box.x + box.width / 2, y: box.y + box.height / 2, data });
  }
  await session.detach();
}

/** A `sleep` that holds longer waits until the gate is opened; the server asks for `gateSeconds`. */
export function gate() {
  const { promise, resolve } = Promise.withResolvers<void>();
  const sleep: Sleep = async (ms, signal) => {
    if (ms < gateSeconds * secondMs) return;
    await Promise.race([promise, ...(signal === undefined ? [] : [once(signal, 'abort')])]);
    signal?.throwIfAborted();
  };
  return { sleep, open: () => resolve() };
}

export const gateSeconds = 20;
