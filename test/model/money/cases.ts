/** Each guard, with the models with and without it and the file of its story. */
import { fileURLToPath } from 'node:url';
import { approvalGuards, approvalModel } from './approvals.ts';
import type { Model } from './explore.ts';
import { approvalCases, guardCases } from './worlds.ts';
import { guards, modelOf } from './world.ts';

/** A guard, or several that back each other up, and a world. */
interface Case {
  readonly title: string;
  readonly story: string;
  readonly breaks: string;
  /** The model with all guards. `without`: without these guards. */
  readonly whole: Model<unknown>;
  readonly without: Model<unknown>;
}

const fileOf = (name: string): string =>
  fileURLToPath(new URL(`stories/${name.replaceAll(/[^\w]+/g, '-')}.txt`, import.meta.url));

export const cases: readonly Case[] = [
  ...guardCases.map(({ without, breaks, world }) => ({
    title: without.map((guard) => guards[guard]).join(', and '),
    story: fileOf(without.join('-')),
    breaks,
    whole: modelOf(world) as Model<unknown>,
    without: modelOf({ ...world, without }) as Model<unknown>,
  })),
  ...approvalCases.map(({ without, breaks, world }) => ({
    title: without.map((guard) => approvalGuards[guard]).join(', and '),
    story: fileOf(without.join('-')),
    breaks,
    whole: approvalModel(world) as Model<unknown>,
    without: approvalModel({ ...world, without }) as Model<unknown>,
  })),
];

export const limitFile = (name: string): string => fileOf(`limit ${name}`);
