// @module-tag full
import { describe } from 'vitest';
import { sharedStores, sharedJournal, sharedPeople } from '../support/shared.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { approvalContract } from './approval-contract.ts';
import { journalContract } from './contract.ts';

const newSharedStore = sharedStores();

describe('a journal in PostgreSQL', () => {
  journalContract(async () => {
    const { store, database, schema, tamper } = await newSharedStore();
    return {
      journal: await sharedJournal(store),
      again: () => sharedJournal(store),
      tamper,
      bytesOf: async (texts) => {
        await database.query('checkpoint');
        const { rows } = await database.query(
          `select pg_read_binary_file(pg_relation_filepath(c.oid)) as bytes from pg_class c
             where relfilenode <> 0 and relkind in ('r', 'i', 't') and (relnamespace = $1::regnamespace or c.oid in
               (select reltoastrelid from pg_class where relnamespace = $1::regnamespace))`,
          [schema],
        );
        const all = Buffer.concat((rows as { readonly bytes: Buffer }[]).map(({ bytes }) => bytes));
        return texts.filter((text) => all.includes(text));
      },
    };
  });
});

describe('approval in PostgreSQL', () => {
  approvalContract(async (rules) => {
    let now = sandboxNow;
    const clock = { now: () => now };
    const { store, tamper } = await newSharedStore();
    return {
      journal: await sharedJournal(store, clock, rules),
      people: await sharedPeople(store, clock),
      again: (other) => sharedJournal(store, clock, other),
      tamper,
      pass: (ms) => {
        now += ms;
      },
    };
  });
});
