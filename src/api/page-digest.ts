/**
 * A page of a list as the sync takes it: whether it came before just as it is, else its rows, made for the store. It is
 * plain data, so that a thread of its own can read pages while another one writes. Section "Requests" of
 * docs/architecture.md.
 */
import { hash } from 'node:crypto';
import { owns, type DayRange } from '../model/era.ts';
import type { PageRows, RowMaker } from '../model/page-rows.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { ageOf, serverTimeOf } from './answer-headers.ts';
import { pageOf, type Page } from './envelope.ts';
import type { HttpAnswer } from './http.ts';

/** A page that came before. */
export type KnownPage = Pick<Page, 'total' | 'lastPage' | 'perPage'> & { readonly hash: string };

export interface PageWish {
  readonly resource: ResourceName;
  /** The number asked for. */
  readonly page: number;
  /** The page as it came last; the same bytes are not read again. */
  readonly known: KnownPage | null;
  /** Days whose records are wanted as rows; null where the records themselves are. */
  readonly rowsOf: DayRange | null;
}

/** A page's records, each in short, and the rows of those that were created on the days asked for. */
export interface PageContent extends Pick<Page, 'total' | 'lastPage' | 'perPage'> {
  /** Of every record, null where it has none that it could be kept under. */
  readonly ids: readonly (RecordKey | null)[];
  readonly createdAt: readonly unknown[];
  /** Records that the rows were made of. */
  readonly owned: number;
  readonly rows: PageRows;
}

export interface PageDigest {
  /** Of the bytes. */
  readonly hash: string;
  /** Null for the known page, and where the bytes are still to be read. */
  readonly content: PageContent | null;
}

/** Reads the answer as wished. Throws an UnreadableAnswer as `pageOf` does. */
export function digestOf(answer: HttpAnswer, wish: PageWish, makeRows: RowMaker | undefined): PageDigest {
  const digest = hash('sha1', answer.body, 'base64');
  const { known, rowsOf, resource } = wish;
  if (digest === known?.hash || rowsOf === null || makeRows === undefined) return { hash: digest, content: null };
  const { total, lastPage, perPage, records } = pageOf(answer, wish.page, resource);
  const owned = records.filter((record) => owns(rowsOf, record['created_at']));
  const content = {
    total,
    lastPage,
    perPage,
    ids: records.map((record) => recordKey(record) ?? null),
    createdAt: records.map((record) => record['created_at']),
    owned: owned.length,
    rows: makeRows(resource, owned),
  };
  return { hash: digest, content };
}

/** The answer as a page: read as wished, here where that was not done on the way. */
export function digestedPage(answer: HttpAnswer, wish: PageWish): Page {
  const digest = answer.digest ?? digestOf(answer, wish, undefined);
  const read = digest.content ?? (wish.known?.hash === digest.hash ? wish.known : undefined);
  if (read === undefined) return { ...pageOf(answer, wish.page, wish.resource), digest };
  const { total, lastPage, perPage } = read;
  const { body: bytes, milliseconds } = answer;
  const ageMs = ageOf(answer.headers);
  const age = ageMs === undefined ? {} : { ageMs };
  const sentAt = serverTimeOf(answer.headers);
  const time = sentAt === undefined ? {} : { serverTime: sentAt + (ageMs ?? 0) };
  return { page: wish.page, total, lastPage, perPage, records: [], digest, bytes, milliseconds, ...age, ...time };
}
