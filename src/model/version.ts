/** The version in package.json, which lies beside src/ in a clone and beside dist/ in the package. */
import { readFileSync } from 'node:fs';

export function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}
