// @module-tag full
/** What people type into forms, or choose as the name of a file, arrives as text and is never an option of a command. */
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { roles } from '../../src/model/actor.ts';
import { csv, made } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';
import { newAccount, quickCost } from '../support/people.ts';
import { hashPassword } from '../../src/people/sign-in.ts';
import { listening } from '../support/listening.ts';
import { isSoak } from '../support/part.ts';

/** Dozens of runs, each in a process of its own. */
const longMs = 180_000;

type Console = Awaited<ReturnType<typeof startConsole>>;
type Browser = Awaited<ReturnType<Console['browser']>>;

/** A server that must get nothing, least of all the key. */
async function trap() {
  const asked: string[] = [];
  const server = createServer(({ headers }, response) => {
    asked.push(String(headers.authorization));
    response.end('{}');
  });
  return { url: await listening(server), asked };
}

const wordsFor = (url: string) => ['--quiet', '--yes', '-V', '--config=x', `--base-url=${url}`, '--'];

/** Waits until the run that the response leads to has ended, and returns its page. */
async function ended({ get }: Browser, response: Response): Promise<string> {
  const place = response.headers.get('location');
  if (place === null) return response.text();
  for (;;) {
    const page = await (await get(place)).text();
    if (!page.includes('data-events')) return page;
    await setTimeout(20);
  }
}

interface Form {
  readonly action: string;
  readonly isUpload: boolean;
  readonly fields: Readonly<Record<string, string>>;
  /** Names of fields that take text. */
  readonly texts: readonly string[];
}

/** The forms of a page that change something, with the values that they have. */
function formsIn(page: string): Form[] {
  return [...page.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gs)].flatMap(([, head = '', body = '']) => {
    if (!/method="post"/.test(head)) return [];
    const fields: Record<string, string> = {};
    const texts: string[] = [];
    for (const [tag] of body.matchAll(/<(?:input|textarea|select|button)\b[^>]*>/g)) {
      const attribute = (name: string) => new RegExp(`\\b${name}="([^"]*)"`).exec(tag)?.[1];
      const name = attribute('name');
      const type = attribute('type') ?? 'text';
      if (name === undefined || type === 'file' || tag.startsWith('<button')) continue;
      if (type === 'checkbox' || type === 'radio') continue;
      fields[name] = attribute('value') ?? '';
      // Hidden fields and lists come from us, but whoever sends the form may put anything there.
      if (type !== 'password') texts.push(name);
    }
    const action = (/\baction="([^"]*)"/.exec(head)?.[1] ?? '').replaceAll('&amp;', '&');
    // A button may send the same form to another address.
    const others = [...body.matchAll(/formaction="([^"]*)"/g)].map(([, other = '']) => other);
    return [action, ...others].map((each) => ({ action: each, isUpload: /multipart/.test(head), fields, texts }));
  });
}

const linkIn = /href="(\/[^"#]*)"/g;

/** Every form that these accounts can reach, once for each kind of address. */
async function formsOf(browser: Browser): Promise<Map<string, Form>> {
  const forms = new Map<string, Form>();
  const seen = new Set<string>();
  const kindOf = (path: string) => path.replace(/\?.*$/, '').replaceAll(/\/runs\/\d[\w-]*|\/rows\/\d+/g, '/*');
  const waiting = ['/'];
  for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
    if (seen.has(kindOf(path)) || /sign-out|\.(?:css|js|csv|svg|xlsx|parquet)|download|events/.test(path)) continue;
    seen.add(kindOf(path));
    const response = await browser.get(path);
    if (!(response.headers.get('content-type') ?? '').startsWith('text/html')) continue;
    const page = await response.text();
    for (const form of formsIn(page)) {
      const action = form.action === '' ? path : form.action;
      // Changing its own account would sign it out.
      if (!/sign-(?:in|out)|^\/people\/(?:zoe|mia)/.test(action)) forms.set(kindOf(action), { ...form, action });
    }
    for (const [, link = ''] of page.matchAll(linkIn)) waiting.push(link.replaceAll('&amp;', '&'));
  }
  return forms;
}

/** A batch that can be sent at once, and one that another person must approve first: their forms differ. */
const worlds = [
  ['', ['action', 'title', 'sheet', 'again', 'typed', 'why', 'what', 'name', 'os_users']],
  ['bulk: {approval: {balance: {net: 1}}}\n', ['note', 'again', 'reason']],
] as const;

// proves: form-options
test.each(worlds)(
  'every text field of every form takes words that look like options as text (%j)',
  { timeout: longMs },
  async (config, expected) => {
    const world = await startConsole({
      sandbox: { users: 5, emails: 5, now: Date.now() },
      ...(config !== '' && { config }),
    });
    const { url, asked } = await trap();
    const maker = await world.browser('mia', ['maker']);
    await world.people.add(newAccount('zoe', { roles, password: await hashPassword('correct horse', quickCost) }));
    const all = await world.browser('zoe');
    // So that there is a batch, a row and a run with forms of their own.
    const rows = `${csv}1,add,5,x\n`;
    const place = (await maker.upload('/batches', { action: 'balance', sheet: '', again: '' }, 'credit.csv', rows))
      .headers;
    if (config !== '') {
      await maker.post(`${place.get('location')}/submit`, { note: '', again: '' });
      await maker.upload('/batches', { action: 'balance', sheet: '', again: '' }, 'second.csv', `${csv}2,add,6,x\n`);
    }
    await ended(all, await all.post('/runs', { what: 'quick', resources: 'coupons' }));
    const before = readdirSync(world.folder).toSorted();
    const tried = new Set<string>();
    for (const browser of [all, maker]) {
      for (const [kind, { action, isUpload, fields, texts }] of await formsOf(browser)) {
        for (const field of texts) {
          // Each field takes one of the words; in the soak all.
          const words = wordsFor(url);
          for (const word of isSoak ? words : [words[tried.size % words.length] ?? '']) {
            const given = { ...fields, [field]: word };
            const response = isUpload
              ? await browser.upload(action, given, 'credit.csv', rows)
              : await browser.post(action, given);
            expect(response.status, `${kind} ${field}=${word}`).toBeLessThan(500);
            // A run that was started must have ended before the next one may begin.
            if (response.headers.get('location')?.startsWith('/runs/') === true) await ended(browser, response);
          }
          tried.add(`${kind} ${field}`);
        }
      }
    }
    const fields = [...tried].map((each) => each.split(' ').at(-1));
    expect(fields).toEqual(expect.arrayContaining([...expected]));
    expect([made(world.sandbox), asked]).toEqual([0, []]);
    expect(readdirSync(world.folder).toSorted()).toEqual(before);
  },
);
