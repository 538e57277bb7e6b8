/** The user behind the key: whose permissions a batch was planned with. */
import type { Client } from '../api/client.ts';
import { recordIn } from '../api/envelope.ts';
import { KeyRefused } from '../api/errors.ts';
import { OperatorError } from '../model/errors.ts';
import { recordId } from '../model/records.ts';

/** A server that does not tell whose key it is must not hold anybody up. */
const patience = { attempts: 2 };

/** The user's id; null where the server does not tell. Throws KeyRefused for a key that is not taken at all. */
export async function keyOwner(client: Pick<Client, 'auth'>, signal: AbortSignal): Promise<string | null> {
  try {
    const id = recordId(recordIn((await client.auth(signal, patience)).body) ?? {});
    return id === undefined ? null : String(id);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof KeyRefused && error.status === 401) throw error;
    if (error instanceof OperatorError) return null;
    throw error;
  }
}
