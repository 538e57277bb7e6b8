/** config/admin-mirror.schema.json: what editors offer and check in a config file. Made of the tables of settings, jobs and policies. */
import { z } from 'zod';
import { approvalSubjects } from '../../src/model/approval.ts';
import { thresholdsOf } from '../../src/settings/block.ts';
import { commonOptions, jobRules } from '../../src/settings/jobs.ts';
import { type Kind, path, profileName } from '../../src/settings/kinds.ts';
import { type Setting, settingTable } from '../../src/settings/table.ts';

type Shape = Record<string, z.ZodType>;

/** Returns the settings below the prefix, as the file nests them. */
function sectionsOf(settings: readonly Setting[], prefix = ''): Shape {
  const shape: Shape = {};
  for (const { key, kind, meaning, default: preset } of settings.filter((each) => each.key.startsWith(prefix))) {
    const [word = '', ...deeper] = key.slice(prefix.length).split('.');
    if (deeper.length > 0) {
      const below = `${prefix}${word}.`;
      // A section with nothing after its colon counts as left out.
      shape[word] ??= z
        .strictObject({ ...sectionsOf(settings, below), ...(below === 'bulk.' && { approval }) })
        .nullish();
    } else if (kind.is === 'secret') {
      shape[`${word}_file`] = z.optional(path.type).meta({ description: `a file that holds ${meaning}` });
    } else {
      shape[word] = z.optional(kind.type).meta({ description: meaning, ...(preset !== null && { default: preset }) });
    }
  }
  return shape;
}

function optionsOf(kinds: Readonly<Record<string, Kind<unknown>>>): Shape {
  return Object.fromEntries(
    Object.entries(kinds).map(([key, { type, expected }]) => [key, z.optional(type).meta({ description: expected })]),
  );
}

const approval = z
  .strictObject(
    Object.fromEntries(
      approvalSubjects.map((subject) => [subject, z.strictObject(optionsOf(thresholdsOf(subject))).optional()]),
    ),
  )
  .meta({ description: 'what needs a second person, by action' })
  .nullish();

const { name, cron } = commonOptions;
const jobs = z
  .array(
    z.union(
      Object.entries(jobRules).map(([run, { options }]) => {
        const required = { name: name.type, run: z.literal(run), cron: cron.type };
        return z.strictObject({ ...optionsOf({ ...commonOptions, ...options }), ...required });
      }),
    ),
  )
  .meta({ description: 'what `schedule` runs, and when' })
  .nullish();

const inFile: readonly Setting[] = settingTable.filter((each) => each.inFile);
const ofProfile = z.strictObject({ ...sectionsOf(inFile.filter(({ key }) => key !== 'profile')), jobs });
const profiles = z
  .record(z.string().regex(profileName), ofProfile.nullable())
  .meta({ description: 'several servers, by name' })
  .nullish();

export const configSchema = z.strictObject({ ...sectionsOf(inFile), jobs, profiles });

export function schemaDocument(): string {
  const schema = z.toJSONSchema(configSchema, { reused: 'ref', io: 'input' });
  return `${JSON.stringify({ ...schema, title: 'The settings of admin-mirror' }, null, 2)}\n`;
}
