import SqliteDatabase from 'better-sqlite3';
import { describe } from 'vitest';
import { newJournal } from '../support/journal.ts';
import { newPeople } from '../support/people.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { approvalContract } from './approval-contract.ts';

describe('approval in an SQLite file', () => {
  approvalContract(async (rules) => {
    let now = sandboxNow;
    const clock = { now: () => now };
    const { journal, file } = await newJournal(clock, undefined, rules);
    const { people } = await newPeople(clock, file);
    return {
      journal,
      people,
      again: async (other) => (await newJournal(clock, file, other)).journal,
      tamper: async (statement) => {
        const database = new SqliteDatabase(file);
        database.exec(statement);
        database.close();
      },
      pass: (ms) => {
        now += ms;
      },
    };
  });
});
