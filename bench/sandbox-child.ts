/** The process of a sandbox. Messages of its parent change users at random. */
import { openSandbox, type SandboxOptions } from '../src/sandbox/sandbox.ts';

const { url, key, control } = await openSandbox(JSON.parse(process.argv[2] ?? '{}') as SandboxOptions);
process.on('message', (updates: number) => process.send?.({ changed: control.churn('users', { updates }) }));
process.send?.({ url, key });
