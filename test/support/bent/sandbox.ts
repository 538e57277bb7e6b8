/** A sandbox that behaves as servers may, and fails as tests want: its switches, and those of `bends.ts` on top. */
import type { ResourceName } from '../../../src/model/resources.ts';
import { type Behaviour as Usual, defaultBehaviour as usual, switches } from '../../../src/sandbox/behaviour.ts';
import {
  openSandbox as openUsual,
  type Sandbox as UsualSandbox,
  type SandboxControl,
  type SandboxOptions as UsualOptions,
} from '../../../src/sandbox/sandbox.ts';
import { Bending, type Bends, straight } from './bends.ts';
import type { ScriptedFault } from './faults.ts';

export { keyOf } from '../../../src/sandbox/sandbox.ts';
export type { ChurnCounts, LedgerEntry, LoggedRequest } from '../../../src/sandbox/sandbox.ts';
export type { Fault, ScriptedFault, WriteFault } from './faults.ts';

/** `ties` is for the seed data. */
export type Behaviour = Usual & Bends & { readonly ties: number };

/** Nothing is bent, and nothing fails. */
export const defaultBehaviour: Usual & Bends = { ...usual, ...straight };

export interface SandboxOptions extends Omit<UsualOptions, 'behaviour' | 'between'> {
  readonly behaviour?: Partial<Behaviour>;
}

interface BentControl extends Omit<SandboxControl, 'behaviour' | 'setBehaviour'> {
  behaviour(): Usual & Bends;
  setBehaviour(values: Partial<Behaviour>): Usual & Bends;
  /** Sets faults for the next requests that match. */
  faultNext(faults: ScriptedFault | readonly ScriptedFault[]): void;
  clearFaults(): void;
  /** Makes the writes that `commit_late` has put off, and returns how many there were. */
  commitLate(): number;
}

export interface Sandbox extends Omit<UsualSandbox, 'control'> {
  readonly control: BentControl;
}

/** Splits the switches into those of the sandbox and the bends. */
function splitOf({ ties: _ties, ...behaviour }: Partial<Behaviour>) {
  const entries = Object.entries(behaviour);
  const own = Object.fromEntries(entries.filter(([name]) => name in switches)) as Partial<Usual>;
  const bends = Object.fromEntries(entries.filter(([name]) => !(name in switches))) as Partial<Bends>;
  return { own, bends };
}

export async function openSandbox({ behaviour = {}, ...options }: SandboxOptions = {}): Promise<Sandbox> {
  const bending = new Bending();
  const { ties } = behaviour;
  const { own, bends } = splitOf(behaviour);
  bending.bends = { ...straight, ...bends };
  const sandbox = await openUsual({
    ...options,
    ...(ties !== undefined && { ties }),
    behaviour: own,
    between: bending.between,
  });
  const { control } = sandbox;
  const all = (): Usual & Bends => ({ ...control.behaviour(), ...bending.bends });
  return {
    ...sandbox,
    control: {
      ...control,
      behaviour: all,
      setBehaviour: (values) => {
        const split = splitOf(values);
        control.setBehaviour(split.own);
        bending.bends = { ...bending.bends, ...split.bends };
        return all();
      },
      setChaos: (chaos) => {
        bending.bends = straight;
        return control.setChaos(chaos);
      },
      remove: (resource: ResourceName, id: number) => {
        const record = control.get(resource, id);
        if (record !== undefined && bending.bends.deletes === 'counted') bending.hidden.push({ resource, record });
        return control.remove(resource, id);
      },
      faultNext: (faults) => bending.faults.script([faults].flat()),
      clearFaults: () => bending.faults.clear(),
      commitLate: () => bending.late.now(),
    },
    close: async () => {
      bending.late.clear();
      await sandbox.close();
    },
  };
}
