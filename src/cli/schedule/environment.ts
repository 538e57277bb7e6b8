/** What of the environment the programs of others are given. */
import { allSettings, isSecret } from '../../settings/table.ts';
import type { CliContext } from '../context.ts';

const secretNames = allSettings.filter(isSecret).map(({ env }) => env);

/** The environment as a program of somebody else may have it: the key, that of a profile too, and the like stay here. */
export function withoutSecrets(environment: CliContext['environment']): CliContext['environment'] {
  const holdsSecret = (name: string) => secretNames.some((each) => name === each || name.startsWith(`${each}_`));
  return Object.fromEntries(Object.entries(environment).filter(([name]) => !holdsSecret(name)));
}
