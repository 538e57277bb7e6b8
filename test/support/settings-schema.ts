/** config/admin-mirror.schema.json: what editors offer and check in a config file. Made of the tables of settings, jobs and policies. */
import { z } from 'zod';
import { approvalSubjects, mostApprovers, movesMoney } from '../../src/model/approval.ts';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import { refused } from '../../src/settings/block.ts';
import { jobRules } from '../../src/settings/jobs.ts';
import type { Kind, KindName } from '../../src/settings/kinds.ts';
import { type Setting, settingTable } from '../../src/settings/table.ts';

const duration = z.string().regex(/^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/);
const name = z.string().regex(/^[A-Za-z0-9][\w.-]*$/);
const amount = z.union([z.number().min(0), z.string().regex(/^\d+(?:\.\d+)?$/)]);
const count = z.int().min(1);
const off = z.literal('off');
const words = z.union([z.string(), z.array(z.string())]);

const related = z.strictObject(
  Object.fromEntries(
    resourceNames.flatMap((resource) => {
      const includes = resourceOf(resource).includes ?? [];
      if (includes.length === 0) return [];
      const include = z.union([z.literal('none'), z.array(z.enum(includes))]).optional();
      return [[resource, z.strictObject({ include }).nullish()]];
    }),
  ),
);

/** What the config file may hold of each kind. That of a secret is its file. */
const kinds: Readonly<Record<KindName, (kind: Kind<unknown>) => z.ZodType>> = {
  address: () => z.string().regex(/^https?:\/\//),
  secret: () => z.string(),
  path: () => z.string(),
  pem: () => words,
  duration: () => duration,
  count: ({ least = 1, most = Number.MAX_SAFE_INTEGER }) => z.int().min(least).max(most),
  bound: () => z.union([count, off]),
  rate: () => z.union([z.number().gt(0), off]),
  money: () => z.union([amount, off]),
  switch: () => z.boolean(),
  name: () => name,
  related: () => z.union([z.literal('none'), related]),
  fields: () => words,
  brake: () => words,
  listen: () => z.string(),
  hook: () => z.string().regex(/^https?:\/\//),
  program: () => words,
  database: () => z.string().regex(/^postgres(?:ql)?:\/\//),
  text: () => z.string().max(200),
};

type Shape = Record<string, z.ZodType>;

/** Returns the settings below the prefix, as the file nests them. */
function sectionsOf(settings: readonly Setting[], prefix = ''): Shape {
  const shape: Shape = {};
  for (const setting of settings) {
    const [word = '', ...deeper] = setting.key.slice(prefix.length).split('.');
    const first = setting.kind.name === 'secret' && deeper.length === 0 ? `${word}_file` : word;
    if (deeper.length === 0) {
      const preset = setting.default === null ? {} : { default: setting.default };
      const meaning = setting.kind.name === 'secret' ? `a file that holds ${setting.meaning}` : setting.meaning;
      shape[first] = kinds[setting.kind.name](setting.kind)
        .meta({ description: meaning, ...preset })
        .optional();
    } else {
      const below = `${prefix}${first}.`;
      const own = settings.filter(({ key }) => key.startsWith(below));
      const more = below === 'bulk.' ? { approval } : {};
      // A section with nothing after its colon counts as left out.
      shape[first] ??= z.strictObject({ ...sectionsOf(own, below), ...more }).nullish();
    }
  }
  return shape;
}

const approval = z
  .strictObject(
    Object.fromEntries(
      approvalSubjects.map((subject) => {
        const money = movesMoney(subject);
        const amounts = { row_amount: amount, net: amount, gross: amount };
        const rest = {
          rows: z.int().min(0),
          alone_per_day: money ? amount : z.int().min(0),
          approvers: z.int().min(1).max(mostApprovers),
          good_for: duration,
        };
        return [
          subject,
          z
            .strictObject({ ...(money ? amounts : {}), ...rest })
            .partial()
            .optional(),
        ];
      }),
    ),
  )
  .meta({ description: 'what needs a second person, by action' })
  .nullish();

/** What an option of a job may be, found out by trying one of each. */
const samples: readonly (readonly [unknown, z.ZodType])[] = [
  [true, z.boolean()],
  [1, count],
  ['users', z.string()],
  [['users'], z.array(z.string())],
  [{ days: 1 }, z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]))],
];

const jobs = z
  .array(
    z.union(
      Object.entries(jobRules).map(([run, { options }]) => {
        const own = Object.entries(options).map(([key, { read, expected }]) => {
          const [first, ...others] = samples.flatMap(([sample, type]) => (read(sample) === refused ? [] : [type]));
          if (first === undefined) throw new Error(`no sample of ${run}.${key}`);
          const type = others.length === 0 ? first : z.union([first, ...others]);
          return [key, type.meta({ description: expected }).optional()];
        });
        return z.strictObject({
          name,
          run: z.literal(run),
          cron: z.string(),
          timezone: z.string().optional(),
          after: words.optional(),
          require: z.literal('complete').optional(),
          ...(Object.fromEntries(own) as Shape),
        });
      }),
    ),
  )
  .meta({ description: 'what `schedule` runs, and when' })
  .nullish();

const inFile: readonly Setting[] = settingTable.filter((each) => each.inFile);
const ofProfile = z.strictObject({ ...sectionsOf(inFile.filter(({ key }) => key !== 'profile')), jobs });
const profiles = z.record(name, ofProfile.nullable()).meta({ description: 'several servers, by name' }).nullish();

export const configSchema = z.strictObject({ ...sectionsOf(inFile), jobs, profiles });

export function schemaDocument(): string {
  const schema = z.toJSONSchema(configSchema, { reused: 'ref' });
  return `${JSON.stringify({ ...schema, title: 'The settings of admin-mirror' }, null, 2)}\n`;
}
