/** The frame around all pages: header, menu, footer, and the files that a page loads. */
import { hash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { readRegularFile } from '../model/files.ts';
import { version } from '../model/program.ts';
import type { Environment } from '../settings/kinds.ts';
import { html, type Html, type Part } from './html.ts';
import { isAllowed, type Route, type Visit } from './route.ts';

/** The main menu, in this order. A caller sees only the pages that their roles allow. */
const menu = [
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
  /** The page opens this address by itself. */
  readonly onward?: string;
  readonly visit: Visit;
  readonly routes: readonly Route[];
  readonly assets: ReturnType<typeof loadAssets>;
  /** The profile and the address of the server. */
  readonly server: string;
  readonly environment: Environment | undefined;
  readonly isReadOnly: boolean;
}

/** The whole document. */
export function documentOf(frame: Frame): string {
  const { title, body, refresh, onward, visit, routes, assets, server, environment, isReadOnly } = frame;
  const { caller, link } = visit;
  const roles = caller?.account.roles ?? null;
  const entries = menu.filter(([path]) =>
    routes.some((route) => route.method === 'GET' && route.path === path && isAllowed(route.access, roles)),
  );
  const document = html`<html lang="en">
    <head>
      <meta charset="utf-8" />
      <meta name="viewport" content="width=device-width, initial-scale=1" />
      <meta name="color-scheme" content="light dark" />
      <title>${title} · admin-mirror</title>
      <link rel="stylesheet" href="${link(assets.style.path)}" />
      <link rel="icon" href="${link(assets.icon.path)}" type="image/svg+xml" />
      <script type="module" src="${link(assets.script.path)}"></script>
      ${onward === undefined ? null : html`<meta http-equiv="refresh" content="0;url=${onward}" />`}
      ${refresh === undefined ? null : html`<noscript><meta http-equiv="refresh" content="${refresh}" /></noscript>`}
    </head>
    <body>
      <a class="skip" href="#main">Skip to the content</a>
      <header>
        <a class="brand" href="${link('/')}">admin-mirror</a>
        ${environment === undefined ? null : html`<strong class="environment ${environment.color ?? ''}">${environment.name}</strong>`}
        ${caller === null ? null : html`<nav aria-label="Main">${entries.map((entry) => navTag(entry, visit))}</nav>`}
        ${visit.offers('GET', '/find') ? findTag(visit) : null} ${caller === null ? null : whoTag(visit)}
      </header>
      <main id="main" tabindex="-1">
        <h1>${title}</h1>
        ${isReadOnly ? html`<p class="note">This console is read-only: it shows everything and changes nothing.</p>` : null}
        ${body}
      </main>
      <footer>${caller === null ? 'admin-mirror' : `${server} · admin-mirror ${version()}`}</footer>
    </body>
  </html>`;
  return `<!doctype html>\n${document.toString()}`;
}

function navTag([path, name]: (typeof menu)[number], { path: here, link }: Visit): Part {
  const isHere = path === '/' ? here === '/' : here === path || here.startsWith(`${path}/`);
  return html`<a href="${link(path)}" ${isHere ? html`aria-current="page"` : null}>${name}</a>`;
}

function findTag({ link, query, path }: Visit): Html {
  return html`<form class="find" role="search" method="get" action="${link('/find')}">
    <label
      ><span class="unseen">Find a person</span>
      <input
        type="search"
        name="q"
        value="${path === '/find' ? query.get('q') : null}"
        placeholder="Email, name or id of a person"
        autocomplete="off"
    /></label>
  </form>`;
}

function whoTag({ caller, link }: Visit): Part {
  return html`<form class="who" method="post" action="${link('/sign-out')}">
    <a href="${link('/me')}">${caller?.account.name}</a> <button class="quiet">Sign out</button>
  </form>`;
}

const types = { css: 'text/css; charset=utf-8', js: 'text/javascript; charset=utf-8', svg: 'image/svg+xml' } as const;

/** The path contains a hash of the content, so browsers may keep the file for ever. */
function asset(name: string, kind: keyof typeof types) {
  const { bytes } = readRegularFile(fileURLToPath(new URL(`./assets/${name}.${kind}`, import.meta.url)));
  return { path: `/assets/${name}-${hash('sha256', bytes).slice(0, 12)}.${kind}`, type: types[kind], bytes };
}

/** Reads the files beside this module. */
export function loadAssets() {
  return { style: asset('console', 'css'), script: asset('console', 'js'), icon: asset('icon', 'svg') };
}
