// @module-tag full
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { findingsOf, screens, useBrowser } from './browser.ts';
import { hostileWorld, pages } from './world.ts';

const open = useBrowser();

/** The address of the page, with an existing value for each parameter. */
function addressOf(path: string, samples: Readonly<Record<string, string>>): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const sample = samples[name];
    if (sample === undefined) throw new Error(`${path}: say in test/browser/world.ts what :${name} is`);
    return encodeURIComponent(sample);
  });
}

/** Opens a page of the route table with every role; null if it is not a page. */
async function shown(path: string, more: Parameters<typeof open>[1] = {}) {
  const world = await hostileWorld({ isFirst: path.startsWith('/first/') });
  const { cookie, get } = world.everybody;
  const address = addressOf(path, world.samples);
  const { status, headers, body } = await get(address);
  await body?.cancel();
  // Skips pictures, files, streams and refused pictures; and pages that need a provider or a waiting sheet.
  const isFile = headers.has('content-disposition');
  const isPage = !isFile && headers.get('content-type')?.startsWith('text/html') === true && status !== 422;
  if (!isPage || (status === 404 && /^\/sign-in\/oidc|:upload$/.test(path))) return null;
  const watched = await open(world.url, { cookie, ...more });
  const response = await watched.page.goto(address);
  return { ...watched, ...world, status: response?.status(), address };
}

interface Inspected {
  readonly hostile?: unknown;
}

/** The elements of the page that are wider than the screen. A table may be, but not on a phone. */
function wideOf(page: Page, isPhone: boolean): Promise<string[]> {
  return page.evaluate((onPhone) => {
    const { scrollWidth, clientWidth } = document.documentElement;
    const tables = [...document.querySelectorAll('.scroll')].filter((each) => each.scrollWidth > each.clientWidth);
    if (onPhone && tables.length > 0) return tables.map((each) => `${each.scrollWidth}: ${each.ariaLabel}`);
    if (scrollWidth <= clientWidth) return [];
    const wide = [...document.querySelectorAll('body *')].filter(
      (each) => each.closest('.scroll') === null && each.getBoundingClientRect().right > clientWidth + 1,
    );
    return [`${scrollWidth} of ${clientWidth}`, ...wide.slice(0, 5).map((each) => each.outerHTML.slice(0, 200))];
  }, isPhone);
}

/** Scripts and styles in the markup itself. */
function inlineOf(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const handlers = [...document.querySelectorAll('*')].filter((each) =>
      each.getAttributeNames().some((name) => name.startsWith('on') || name === 'style'),
    );
    const inline = [...document.querySelectorAll('script:not([src]), style, iframe, object, embed, base')];
    return [...handlers, ...inline].map((each) => each.outerHTML.slice(0, 200));
  });
}

describe.each(pages.map(({ path }) => path))('the page %s', (path) => {
  test('has no finding of axe-core in light and dark, fits a phone, runs no script from a name, loads nothing from elsewhere, and can be used fully by keyboard', async () => {
    const found = await shown(path);
    if (found === null) return;
    const { page, problems, address } = found;
    for (const [screen, size] of Object.entries(screens)) {
      await page.setViewportSize(size);
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        const seen = { screen, colorScheme };
        expect({ ...seen, findings: await findingsOf(page) }).toEqual({ ...seen, findings: [] });
      }
      expect({ screen, wide: await wideOf(page, screen === 'phone') }).toEqual({ screen, wide: [] });
    }
    expect(await inlineOf(page)).toEqual([]);
    await page.mouse.move(200, 300);
    for (const link of await page.locator('a, button, input').all())
      await link.hover({ force: true, timeout: 500 }).catch(() => {});
    expect(await page.evaluate(() => (globalThis as Inspected).hostile)).toBeUndefined();
    expect(problems).toEqual([]);

    // By keyboard: stops are in page order and visible, and the first leads to the content.
    await page.mouse.move(0, 0);
    await page.emulateMedia({ colorScheme: null });
    await page.goto(address);
    const stops = await stopsOf(page);
    expect(stops[0]?.text).toBe('Skip to the content');
    expect(stops.filter(({ isSeen }) => !isSeen)).toEqual([]);
    const expected = await page.evaluate(
      () =>
        // Collapsed content has no stops before it is opened.
        [
          ...document.querySelectorAll(
            'a[href], button, input:not([type=hidden]), select, textarea, [tabindex="0"], summary',
          ),
        ].filter((each) => each.checkVisibility()).length,
    );
    expect(stops.length).toBe(expected);
    expect(stops.map(({ at }) => at)).toEqual(stops.map(({ at }) => at).toSorted((a, b) => a - b));
  });
});

interface Stop {
  readonly at: number;
  readonly text: string;
  /** Whether it has an outline, and is on the screen. */
  readonly isSeen: boolean;
}

/** Everything that Tab leads to, until it leaves the page or repeats. */
async function stopsOf(page: Page): Promise<Stop[]> {
  const stops: Stop[] = [];
  // A page may start in a field, so that Tab starts there; this goes to the end first. A browser sets that focus when
  // it draws the page, which may be after the page was loaded.
  await page.waitForFunction(() => [null, document.activeElement].includes(document.querySelector('[autofocus]')));
  const isOnPage = () => page.evaluate(() => document.activeElement !== document.body);
  while (await isOnPage()) await page.keyboard.press('Tab');
  for (;;) {
    await page.keyboard.press('Tab');
    const stop = await page.evaluate((): Stop | null => {
      const on = document.activeElement;
      if (on === null || on === document.body) return null;
      const { outlineStyle, outlineWidth } = getComputedStyle(on);
      const { width, height, right, bottom } = on.getBoundingClientRect();
      return {
        at: [...document.querySelectorAll('*')].indexOf(on),
        text: on.textContent.trim().slice(0, 80),
        isSeen:
          outlineStyle !== 'none' &&
          Number.parseFloat(outlineWidth) >= 2 &&
          width * height > 0 &&
          right > 0 &&
          bottom > 0,
      };
    });
    // A date field has several stops of its own.
    if (stop?.at === stops.at(-1)?.at && stop !== null) continue;
    if (stop === null || stops.some(({ at }) => at === stop.at)) return stops;
    stops.push(stop);
  }
}
