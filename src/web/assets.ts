/** The stylesheet, the script and the icon, read once and named by what is in them, so that browsers may keep them for ever. */
import { createHash } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { readRegularFile } from '../model/read-file.ts';

export interface Asset {
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

interface Assets {
  readonly style: Asset;
  readonly script: Asset;
  readonly icon: Asset;
}

/** Reads them from beside this file. */
export function loadAssets(): Assets {
  return {
    style: asset('console', 'css', true),
    script: asset('console', 'js', true),
    icon: asset('icon', 'svg', false),
  };
}
