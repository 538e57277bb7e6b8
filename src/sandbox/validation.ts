/** Checks a request's body against the parameters of its operation, and answers 422 as the API's family does. */
import type { Operation, Parameter } from '../model/operations.ts';
import { invalid } from './refusal.ts';
import type { JsonRecord } from './serialise.ts';

export type Problems = Record<string, string[]>;

const codePattern = /^[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})?$/;
const booleans: readonly unknown[] = [true, false, 0, 1, '0', '1', 'true', 'false'];

/** `address[street]` is the key `street` of the object `address`. */
function valueOf(body: JsonRecord, name: string): unknown {
  const match = /^(\w+)\[(\w+)\]$/.exec(name);
  if (match === null) return body[name];
  const outer = body[match[1] ?? ''];
  return typeof outer === 'object' && outer !== null ? (outer as JsonRecord)[match[2] ?? ''] : undefined;
}

function isUrl(value: unknown): boolean {
  return typeof value === 'string' && URL.canParse(value);
}

function isNumeric(value: unknown): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return typeof value === 'string' && /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/.test(value.trim());
}

/** What is wrong with a value that is there, or undefined. */
function problemOf(parameter: Parameter, label: string, value: unknown): string | undefined {
  switch (parameter.type) {
    case 'string':
    case 'icon':
      if (typeof value !== 'string') return `The ${label} field must be a string.`;
      break;
    case 'code':
      if (typeof value !== 'string' || !codePattern.test(value)) return `The ${label} field must be a valid code.`;
      break;
    case 'number':
      if (!isNumeric(value)) return `The ${label} field must be a number.`;
      break;
    case 'boolean':
      if (!booleans.includes(value)) return `The ${label} field must be true or false.`;
      break;
    case 'url':
      if (!isUrl(value)) return `The ${label} field must be a valid URL.`;
      break;
  }
  if (parameter.values !== undefined && !parameter.values.includes(String(value))) {
    return `The selected ${label} is invalid.`;
  }
  return undefined;
}

/** Empty text counts as no value, as the family's middleware has it. */
function isBlank(value: unknown): boolean {
  return value === undefined || value === null || (typeof value === 'string' && value.trim() === '');
}

/** Every problem with the body, by field. */
export function problemsOf(operation: Operation, body: JsonRecord): Problems {
  const problems: Problems = {};
  const address = body['address'];
  if (address !== undefined && address !== null && (typeof address !== 'object' || Array.isArray(address))) {
    problems['address'] = ['The address field must be an array.'];
  }
  for (const parameter of operation.parameters) {
    const field = parameter.name.replace('[', '.').replace(']', '');
    const label = field.replaceAll('_', ' ');
    const value = valueOf(body, parameter.name);
    if (isBlank(value)) {
      if (parameter.required) problems[field] = [`The ${label} field is required.`];
      continue;
    }
    const problem = problemOf(parameter, label, value);
    if (problem !== undefined) problems[field] = [problem];
  }
  return problems;
}

/** Throws the 422 where there is any problem. */
export function refuseProblems(problems: Problems): void {
  if (Object.keys(problems).length > 0) throw invalid(problems);
}

/** The value as text, or undefined where it is blank. */
export function textOf(body: JsonRecord, name: string): string | undefined {
  const value = valueOf(body, name);
  return typeof value === 'string' && !isBlank(value) ? value : undefined;
}

/** The value of a boolean parameter; false where it is not given. */
export function yesOf(body: JsonRecord, name: string): boolean {
  const value = body[name];
  return value === true || value === 1 || value === '1' || value === 'true';
}
