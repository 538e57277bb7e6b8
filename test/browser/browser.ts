/**
 * A real browser on the pages of a console: the system's Chromium, or the one in the packages of this folder. It can
 * reach only this machine, and collects whatever goes wrong on a page. `npm run test:full` installs it.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import axe from 'axe-core';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, onTestFinished } from 'vitest';

const unpacked = fileURLToPath(new URL('node_modules/.cache/chromium/', import.meta.url));
const ofTheSystem = '/usr/bin/chromium';

function executable(): string {
  if (existsSync(ofTheSystem)) return ofTheSystem;
  if (existsSync(`${unpacked}chromium`)) return `${unpacked}chromium`;
  throw new Error('there is no browser here: run `npm run setup:full` once');
}

/** The screen sizes on which every page is tested. */
export const screens = { phone: { width: 360, height: 740 }, laptop: { width: 1_280, height: 800 } } as const;

export interface BrowserTry extends BrowserContextOptions {
  /** `name=value`; without it nobody is signed in. */
  readonly cookie?: string;
}

/** A page, and what it did that it should not have done. */
export interface Watched {
  readonly page: Page;
  /** Errors on its console, exceptions, policy violations, and requests to other addresses than the console's. */
  readonly problems: string[];
}

/** One browser for the tests of a file. Each tab has its own cookies, and is closed with its test. */
export function useBrowser() {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await chromium.launch({
      executablePath: executable(),
      // Flags that tests as root need, and flags that stop the browser's own requests.
      args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
      // Its own fonts, so that pictures are the same everywhere; its own libraries, if the system has none.
      env: { ...process.env, FONTCONFIG_FILE: `${unpacked}fonts.conf`, LD_LIBRARY_PATH: `${unpacked}al2023/lib` },
    });
  });
  afterAll(() => browser?.close());

  return async (
    url: string,
    { cookie, ...options }: BrowserTry = {},
    others: readonly string[] = [],
  ): Promise<Watched> => {
    if (browser === undefined) throw new Error('the browser has not started');
    const context = await browser.newContext({ viewport: screens.laptop, baseURL: url, ...options });
    onTestFinished(() => context.close());
    context.setDefaultTimeout(50_000);
    const problems: string[] = [];
    const origin = new URL(url).origin;
    await context.route(
      (asked) => asked.protocol.startsWith('http') && ![origin, ...others].includes(asked.origin),
      (route) => {
        problems.push(`a request to ${route.request().url()}`);
        return route.abort();
      },
    );
    if (cookie !== undefined) {
      const at = cookie.indexOf('=');
      // A secure cookie: this machine's own address counts as secure.
      const { hostname } = new URL(url);
      const fields = { httpOnly: true, secure: true, sameSite: 'Strict' } as const;
      await context.addCookies([
        { name: cookie.slice(0, at), value: cookie.slice(at + 1), url: `https://${hostname}/`, ...fields },
      ]);
    }
    const page = await context.newPage();
    page.on('console', (message) => {
      const said = message.text();
      // A page that explains a refusal is as expected.
      if (/^Failed to load resource: .* status of (?:409|422)/.test(said)) return;
      if (message.type() === 'error' || message.type() === 'warning') problems.push(`console: ${said}`);
    });
    page.on('pageerror', (error) => problems.push(`exception: ${error.message}`));
    page.on('requestfailed', (request) => {
      const why = request.failure()?.errorText ?? '';
      // A request that became a download, or was left for another page.
      if (why !== 'net::ERR_ABORTED') problems.push(`failed: ${request.url()} ${why}`);
    });
    return { page, problems };
  };
}

/** The findings of axe-core, each with its elements. */
export async function findingsOf(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const found = await page.evaluate(async () => {
    const { violations } = await (globalThis as unknown as { readonly axe: typeof axe }).axe.run();
    return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map(({ html }) => html).join(' ')}`);
  });
  return found.map((each) => each.slice(0, 500));
}
