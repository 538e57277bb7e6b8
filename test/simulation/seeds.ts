/** Runs the whole system with one seed or many; checks it, and reports a failure. */

import { dayMs } from '../../src/model/time.ts';
import { seedRandomness } from './machine.ts';
import { type Move, movesOf, World } from './world.ts';

const { SIMULATION_SEED, SIMULATION_RUNS, SIMULATION_FROM = '1' } = process.env;

interface Ended {
  readonly problems: readonly string[];
  readonly hash: string;
  readonly lines: readonly string[];
  readonly simulatedMs: number;
  /** Payments that the server made. */
  readonly payments: number;
}

export async function simulate(seed: number, moves: readonly Move[]): Promise<Ended> {
  const restore = seedRandomness(seed);
  try {
    const world = await World.open(seed);
    const { machine, problems } = world;
    const began = machine.time;
    let payments = 0;
    try {
      for (const move of moves) {
        await world.do(move);
        if (problems.length > 0) break;
      }
      if (problems.length === 0) await world.quiet();
    } catch (error) {
      problems.push(error instanceof Error ? (error.stack ?? error.message) : String(error));
    } finally {
      payments = world.payments();
      await world.close();
    }
    return { problems, hash: machine.hash(), lines: machine.lines, simulatedMs: machine.time - began, payments };
  } finally {
    restore();
  }
}

/** Fewer moves that still fail in any way: leaves out one move after the other while a failure remains. */
async function shrunk(seed: number, moves: readonly Move[]): Promise<readonly Move[]> {
  for (let at = moves.length - 1; at >= 0; at -= 1) {
    const fewer = moves.toSpliced(at, 1);
    if ((await simulate(seed, fewer)).problems.length > 0) return shrunkFrom(seed, fewer, at - 1);
  }
  return moves;
}

async function shrunkFrom(seed: number, moves: readonly Move[], from: number): Promise<readonly Move[]> {
  let left = moves;
  for (let at = from; at >= 0; at -= 1) {
    const fewer = left.toSpliced(at, 1);
    if ((await simulate(seed, fewer)).problems.length > 0) left = fewer;
  }
  return left;
}

/** The report of a failure: what is wrong, the moves that it needs, and the command to repeat it. */
async function story(seed: number, moves: readonly Move[], { problems }: Ended): Promise<string> {
  const few = await shrunk(seed, moves);
  const { problems: same, lines } = await simulate(seed, few);
  return [
    `seed ${seed}: ${problems[0]}`,
    `with ${few.length} of ${moves.length} moves: ${few.map(({ kind }) => kind).join(', ')}`,
    `then: ${same[0]}`,
    `again: SIMULATION_SEED=${seed} npx vitest run --config test/vitest.config.ts test/simulation`,
    ...lines.slice(-30),
  ].join('\n');
}

/** Whether the environment sets seeds: `npm run soak`, or one that failed. */
export const isChosen = SIMULATION_SEED !== undefined || SIMULATION_RUNS !== undefined;

/** Runs this many seeds, or those set by the environment; returns the reports of those that fail. */
export async function failedSeeds(from: number, seeds: number): Promise<string> {
  const isOne = SIMULATION_SEED !== undefined;
  const first = isChosen ? Number(SIMULATION_SEED ?? SIMULATION_FROM) : from;
  const count = isOne ? 1 : Number(SIMULATION_RUNS ?? seeds);
  const began = process.cpuUsage();
  const last = first + count - 1;
  const failed: string[] = [];
  let simulatedMs = 0;
  const seen = { steps: 0, kills: 0, payments: 0 };
  const real = performance.now();
  for (let seed = first; seed <= last && failed.length < 3; seed += 1) {
    const moves = movesOf(seed);
    const ended = await simulate(seed, moves);
    simulatedMs += ended.simulatedMs;
    seen.steps += ended.lines.length;
    seen.kills += ended.lines.filter((line) => line.includes(' is killed at ')).length;
    seen.payments += ended.payments;
    if (isOne) process.stdout.write(`${ended.lines.join('\n')}\n${ended.problems.join('\n')}\n`);
    if (ended.problems.length > 0) failed.push(await story(seed, moves, ended));
  }
  const { user, system } = process.cpuUsage(began);
  const speed = simulatedMs / (performance.now() - real);
  const days = (simulatedMs / dayMs).toFixed(0);
  const seconds = ((user + system) / 1e6).toFixed(0);
  process.stdout.write(
    `${last - first + 1} seeds, ${JSON.stringify(seen)}, ${days} days in ${seconds} s of CPU, ${speed.toFixed(0)} x real time\n`,
  );
  return failed.join('\n\n');
}
