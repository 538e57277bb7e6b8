/** Why a file cannot be read as a sheet at all. */
import { UsageError } from '../../model/errors.ts';

const otherwise = 'Save it as .xlsx or as CSV UTF-8 in a spreadsheet program, and try that file.';

/** `sheet.xlsx cannot be read: it is protected by a password`, with what to do next. */
export function refusal(file: string, reason: string, advice: string = otherwise, cause?: unknown): UsageError {
  return new UsageError(`${file} cannot be read: ${reason}`, { advice, cause });
}
