/** "Did you mean …": the names closest to one that is not known. */
import { distance } from 'fastest-levenshtein';
import { UsageError } from './errors.ts';

/** So few changes lead from one to the other that the hand may have slipped. */
export function isSlip(name: string, known: string): boolean {
  return distance(name.toLowerCase(), known.toLowerCase()) <= Math.max(2, Math.floor(known.length / 3));
}

/** Up to three known names that a slip of the hand could have meant, nearest first. */
export function nearestNames(name: string, known: readonly string[]): string[] {
  const wanted = name.toLowerCase();
  return known
    .map((each) => ({ each, far: distance(wanted, each.toLowerCase()), within: each.toLowerCase().includes(wanted) }))
    .filter(({ each, far, within }) => far <= Math.max(2, Math.floor(each.length / 3)) || (within && wanted.length > 2))
    .sort((a, b) => a.far - b.far)
    .slice(0, 3)
    .map(({ each }) => each);
}

/** `Did you mean "created_at"?`, or the list of what is known where nothing is near. */
export function suggestion(name: string, known: readonly string[]): string {
  const near = nearestNames(name, known);
  if (near.length > 0) return `Did you mean ${near.map((each) => `"${each}"`).join(' or ')}?`;
  return `Known: ${known.join(', ')}.`;
}

/** The one of that name. Throws a UsageError that names the nearest. @param none such as `there is no action` */
export function oneNamed<T extends { readonly name: string }>(all: readonly T[], name: string, none: string): T {
  const found = all.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = all.map((each) => each.name);
  throw new UsageError(`${none} "${name}"`, { advice: suggestion(name, names) });
}
