/** Finds people by an id, an email or words of a name, as somebody types them. */
import { writtenId } from '../model/records.ts';
import type { Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { quoteText } from '../store/schema.ts';

/** One more than these are read, to tell whether there are others. */
export const mostFound = 20;

export const foundColumns = ['id', 'username', 'first_name', 'last_name', 'email', 'status', 'balance'] as const;

/** Whether the mirror has the words of its users: a first complete sync makes them. */
export function hasWords(snapshot: Snapshot): boolean {
  return [...snapshot.query("SELECT 1 FROM sqlite_schema WHERE name = 'users_search'").batches(() => 1)].length > 0;
}

/** Returns the users, each with `foundColumns`: the one of that id first. @param isMasked without data about people, only an id finds */
export function findPeople(snapshot: Snapshot, text: string, isMasked: boolean): readonly Row[] {
  const id = writtenId(text.trim());
  const byId = id === undefined ? [] : select(snapshot, `"id" = ${id}`);
  const condition = isMasked ? undefined : conditionOf(text.trim().normalize('NFC'), hasWords(snapshot));
  const others = condition === undefined ? [] : select(snapshot, condition);
  return [...byId, ...others.filter(([other]) => other !== byId[0]?.[0])];
}

function select(snapshot: Snapshot, where: string): Row[] {
  const limit = mostFound + 1;
  const { batches } = snapshot.select({ relation: 'users', columns: [...foundColumns], where, limit });
  return [...batches(() => limit)].flat();
}

/** Every word must be found; one of three letters or more also as the beginning of a longer one. Undefined without a word. */
function conditionOf(text: string, isIndexed: boolean): string | undefined {
  const [local = '', domain] = text.split('@');
  const words = local.match(/[\p{L}\p{N}][\p{L}\p{M}\p{N}]*/gu) ?? [];
  if (words.length === 0) return undefined;
  const email = domain === undefined ? [] : [like('email', text)];
  if (!isIndexed) {
    const all = ['email', 'username', 'first_name', 'last_name']
      .map((name) => `coalesce("${name}", '')`)
      .join(` || ' ' || `);
    return [...words.map((word) => like(all, word, '%')), ...email].join(' AND ');
  }
  const match = words.map((word) => `"${word}"${word.length > 2 ? '*' : ''}`).join(' ');
  return [`"id" IN (SELECT rowid FROM users_search WHERE users_search MATCH ${quoteText(match)})`, ...email].join(
    ' AND ',
  );
}

function like(value: string, text: string, before = ''): string {
  return `${value} LIKE ${quoteText(`${before}${text.replaceAll(/[\\%_]/g, '\\$&')}%`)} ESCAPE '\\'`;
}
