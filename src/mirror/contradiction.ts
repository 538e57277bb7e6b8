/** The server did what its measured capabilities rule out: they must be measured again. */
import { OperatorError } from '../model/errors.ts';

export class ContradictionError extends OperatorError {
  override readonly name = 'ContradictionError';
  override readonly exitCode = 5;
}
