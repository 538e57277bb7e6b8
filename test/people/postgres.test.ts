// @module-tag full
import { describe } from 'vitest';
import { sharedStores, sharedJournal, sharedPeople } from '../support/shared.ts';
import { peopleContract } from './contract.ts';

const newSharedStore = sharedStores();

describe('accounts in PostgreSQL', () => {
  peopleContract(async (clock) => {
    const { store } = await newSharedStore();
    return {
      people: await sharedPeople(store, clock),
      again: () => sharedPeople(store, clock),
      journal: () => sharedJournal(store, clock),
    };
  });
});
