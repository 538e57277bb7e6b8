// @module-tag full
import { describe, onTestFinished } from 'vitest';
import { openSharedWorkerStore } from '../../src/worker/store/postgres.ts';
import { sharedStores } from '../support/shared.ts';
import { workerStoreContract } from './contract.ts';

const newSharedStore = sharedStores();

describe("a worker's store in PostgreSQL", () => {
  workerStoreContract(async () => {
    const { store } = await newSharedStore();
    let now = Date.parse('2026-03-11T10:00:00Z');
    const open = async () => {
      const opened = await openSharedWorkerStore(store, { now: () => now });
      onTestFinished(() => opened.close());
      return opened;
    };
    return { store: await open(), again: open, pass: (ms) => void (now += ms) };
  });
});
