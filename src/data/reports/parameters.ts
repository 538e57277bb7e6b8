/** Values of a report's parameters: text that a person typed, as what is bound in the statement. */
import { UsageError } from '../../model/errors.ts';
import { momentForms, parseMoment } from '../../model/moment.ts';
import { suggestion } from '../../model/nearest.ts';
import { dayMs, dayOf, timestampOf } from '../../model/time.ts';
import type { BoundValues } from '../../store/reading-types.ts';
import type { ParameterType, Report, ReportParameter } from './report.ts';

type Value = string | bigint | number;

const forms: Readonly<Record<ParameterType, string>> = {
  date: 'a day such as 2026-03-11, today, yesterday, or how long ago, as in 30d',
  time: `${momentForms}, or now`,
  integer: 'a whole number',
  number: 'a number such as 12.5',
  text: 'text',
  flag: '0 or 1',
};

/** The value that is bound; undefined where the text is none of the type. Days and times are UTC. */
function valueOf(type: ParameterType, text: string, now: number): Value | undefined {
  const trimmed = text.trim();
  switch (type) {
    case 'date': {
      const ms = momentOf(trimmed, now);
      return ms === undefined ? undefined : dayOf(ms);
    }
    case 'time': {
      const ms = momentOf(trimmed, now);
      return ms === undefined ? undefined : timestampOf(ms);
    }
    case 'integer':
      return /^[+-]?\d{1,18}$/.test(trimmed) ? BigInt(trimmed) : undefined;
    case 'number':
      return /^[+-]?(?:\d+(?:\.\d+)?|\.\d+)$/.test(trimmed) ? Number(trimmed) : undefined;
    case 'flag':
      return trimmed === '0' || trimmed === '1' ? BigInt(trimmed) : undefined;
    case 'text':
      return text;
  }
}

function momentOf(text: string, now: number): number | undefined {
  switch (text) {
    case 'now':
      return now;
    case 'today':
      return now - (now % dayMs);
    case 'yesterday':
      return now - (now % dayMs) - dayMs;
    default:
      return parseMoment(text.replace(/\s+ago$/, ''), now);
  }
}

/** What is wrong with the default of a parameter, in words for people. */
export function defaultProblem({ name, type, default: standing }: ReportParameter): string | undefined {
  if (standing === null || standing === undefined || valueOf(type, standing, dayMs * 20_000) !== undefined) {
    return undefined;
  }
  return `the parameter ${name} has the default "${standing}", which is not ${forms[type]}`;
}

/**
 * The values to bind: what was given, and the defaults of the rest. Throws a UsageError for a name that the report does
 * not know, a value of another type, and a parameter without default that was not given.
 * @param now in ms since 1970; what `today` and `30d ago` are counted from
 */
export function boundValues(
  report: Pick<Report, 'name' | 'parameters'>,
  given: ReadonlyMap<string, string>,
  now: number,
): BoundValues {
  const names = report.parameters.map(({ name }) => name);
  for (const name of given.keys()) {
    if (names.includes(name)) continue;
    throw new UsageError(`report ${report.name} has no parameter "${name}"`, {
      advice: names.length === 0 ? 'It has none at all.' : suggestion(name, names),
    });
  }
  return Object.fromEntries(
    report.parameters.map((parameter) => [
      parameter.name,
      boundValue(report, parameter, given.get(parameter.name), now),
    ]),
  );
}

function boundValue(
  report: Pick<Report, 'name'>,
  { name, type, default: standing, meaning }: ReportParameter,
  given: string | undefined,
  now: number,
): Value | null {
  const text = given ?? standing;
  if (text === undefined) {
    throw new UsageError(`report ${report.name} needs the parameter "${name}": ${meaning}`, {
      advice: `Give it with --param ${name}=…, ${forms[type]}.`,
    });
  }
  if (text === null) return null;
  const value = valueOf(type, text, now);
  if (value !== undefined) return value;
  throw new UsageError(`the parameter ${name} of report ${report.name} is "${text}"`, {
    advice: `It must be ${forms[type]}.`,
  });
}

/** The assumptions of the report in words, with the values in force. */
export function assumptionsWith(report: Pick<Report, 'assumptions'>, values: BoundValues): string[] {
  return report.assumptions.map((words) => words.replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name])));
}
