/** The frame around every page, and the files that come with it. */
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { readRegularFile } from '../model/read-file.ts';
import { version } from '../model/version.ts';
import { html, type Html, type Part } from './html.ts';
import { isAllowed, type Route, type Visit } from './route.ts';

/** Pages that the head of every page leads to, in this order, where the caller may see them. */
const places = [
  ['/', 'Home'],
  ['/runs', 'Runs'],
  ['/data', 'Data'],
  ['/reports', 'Reports'],
  ['/batches', 'Batches'],
  ['/audit', 'Audit'],
  ['/people', 'People'],
] as const;

export interface Frame {
  readonly title: string;
  readonly body: Html;
  readonly refresh?: number | undefined;
  /** The page leads there by itself. */
  readonly onward?: string;
  readonly visit: Visit;
  readonly routes: readonly Route[];
  readonly assets: ReturnType<typeof loadAssets>;
  /** The profile and the address of the server. */
  readonly server: string;
  readonly isReadOnly: boolean;
}

/** The whole document. */
export function documentOf({ title, body, refresh, onward, visit, routes, assets, server, isReadOnly }: Frame): string {
  const { caller, link } = visit;
  const roles = caller?.account.roles ?? null;
  const shown = places.filter(([path]) =>
    routes.some((route) => route.method === 'GET' && route.path === path && isAllowed(route.access, roles)),
  );
  const document = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>${title} · admin-mirror</title>
      <link rel="stylesheet" href="${link(assets.style.path)}" />
      <link rel="icon" href="${link('/assets/icon.svg')}" type="image/svg+xml" />
      <script type="module" src="${link(assets.script.path)}"></script>
      ${onward === undefined ? null : html`<meta http-equiv="refresh" content="0;url=${onward}" />`}
      ${refresh === undefined ? null : html`<noscript><meta http-equiv="refresh" content="${refresh}" /></noscript>`}
    </head>
    <body>
      <a class="skip" href="#main">Skip to the content</a>
      <header>
        <a class="brand" href="${link('/')}">admin-mirror</a>
        ${caller === null ? null : html`<nav aria-label="Main">${shown.map((place) => navTag(place, visit))}</nav>`}
        ${caller === null ? null : whoTag(visit)}
      </header>
      <main id="main" tabindex="-1">
        <h1>${title}</h1>
        ${isReadOnly ? html`<p class="note">This console is read-only: it shows everything and changes nothing.</p>` : null}
        ${body}
      </main>
      <footer>${caller === null ? 'admin-mirror' : `${server} · admin-mirror ${version()}`}</footer>
    </body>
  </html>`;
  return `<!doctype html>\n${document.valueOf()}`;
}

function navTag([path, name]: (typeof places)[number], { path: here, link }: Visit): Part {
  const isHere = path === '/' ? here === '/' : here === path || here.startsWith(`${path}/`);
  return html`<a href="${link(path)}" ${isHere ? html`aria-current="page"` : null}>${name}</a>`;
}

function whoTag({ caller, link }: Visit): Part {
  return html`<form class="who" method="post" action="${link('/sign-out')}">
    <a href="${link('/me')}">${caller?.account.name}</a> <button class="quiet">Sign out</button>
  </form>`;
}

interface Asset {
  /** `/assets/console-1f3a….css` */
  readonly path: string;
  readonly type: string;
  readonly bytes: Buffer;
}

const types = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
} as const;

function asset(name: string, kind: keyof typeof types, isNamedByContent: boolean): Asset {
  const { bytes } = readRegularFile(fileURLToPath(new URL(`./assets/${name}.${kind}`, import.meta.url)));
  const mark = isNamedByContent ? `-${createHash('sha256').update(bytes).digest('hex').slice(0, 12)}` : '';
  return { path: `/assets/${name}${mark}.${kind}`, type: types[kind], bytes };
}

/** Reads them from beside this file. */
export function loadAssets() {
  return {
    style: asset('console', 'css', true),
    script: asset('console', 'js', true),
    icon: asset('icon', 'svg', false),
  };
}
