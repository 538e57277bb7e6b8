/** docs/api.md: the project's reference of the Administration API, generated from the descriptors alone. */
import { type Operation, operations, type Parameter } from '../../src/model/operations.ts';
import {
  datePresets,
  defaultPageSize,
  type Field,
  type FieldType,
  resourceNames,
  type Resource,
  resourceOf,
  sortDirections,
} from '../../src/model/resources.ts';

/** Every field of the envelope that list operations return, and its type. */
export const envelopeFields = [
  { name: 'status', type: 'boolean', note: '' },
  { name: 'current_page', type: 'integer', note: '' },
  { name: 'data', type: 'array of records', note: 'the records of this page' },
  { name: 'first_page_url', type: 'string (URL)', note: '' },
  { name: 'from', type: 'integer', note: 'position of the first record of this page, counted from 1' },
  { name: 'last_page', type: 'integer', note: '' },
  { name: 'last_page_url', type: 'string (URL)', note: '' },
  { name: 'links', type: 'array of objects', note: '`url` (string or null), `label` (string), `active` (boolean)' },
  { name: 'next_page_url', type: 'string or null', note: 'null on the last page' },
  { name: 'path', type: 'string (URL)', note: '' },
  { name: 'per_page', type: 'integer', note: '' },
  { name: 'prev_page_url', type: 'string or null', note: 'null on the first page' },
  { name: 'to', type: 'integer', note: 'position of the last record of this page' },
  { name: 'total', type: 'integer', note: 'records that match, over all pages' },
] as const;

const typeWords: Readonly<Record<FieldType, string>> = {
  integer: 'integer',
  number: 'number',
  string: 'string',
  flag: 'integer, 0 or 1',
  timestamp: 'timestamp',
  any: 'any',
  object: 'object',
  strings: 'array of strings',
};

function code(words: readonly (string | number)[]): string {
  return words.map((each) => `\`${each}\``).join(', ');
}

function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(heads), line(heads.map(() => '---')), ...rows.map(line)].join('\n');
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const opening = `# The Administration API

The API of an application with users, packages, emails sent to users, and coupons: JSON over HTTP. This page says what
is known of it. Where its own documentation is silent, that is said here, and how admin-mirror copes with it.

This page is generated from \`src/model/resources.ts\` and \`src/model/operations.ts\`; the tables of the mirror, the flags of
the command line, the client and the sandbox come from them, too. After a change there, run
\`UPDATE_DOCS=1 npm test -- test/model/reference.test.ts\`.

## Addresses and authentication

Every path below follows the base address of a server, which may have a path of its own. There is one version, \`v1\`, and
it is part of every path. Every request carries three headers:

    Authorization: Bearer <key>
    Accept: application/json
    Content-Type: application/json

There is no other way to authenticate. How keys are issued, how long they live and what one may do is not documented.`;

const values = `## Values

- A timestamp is ISO 8601 in UTC with microseconds and \`Z\`: \`2026-03-11T10:00:00.000000Z\`. Many servers keep whole
  seconds, so several records of the same instant are normal.
- A flag is an integer, 0 or 1. \`null\` stands for no value.
- Servers have been seen to send numbers as text, flags as true and false, and an empty object as \`[]\`. The mirror
  converts where nothing is lost and keeps the value in \`_extra\` elsewhere.`;

function fieldRow(field: Field): string[] {
  const type = `${typeWords[field.type]}${field.nullable ? ', or null' : ''}`;
  return [`\`${field.name}\``, type, field.note];
}

function resourceSection(resource: Resource): string {
  const seen = Object.entries(resource.valuesSeen).map(([field, each]) => `\`${field}\` ${code(each)}`);
  return [
    `### ${capital(resource.singular)}`,
    resource.summary,
    table(['field', 'type', 'notes'], resource.fields.map(fieldRow)),
    ...(seen.length === 0 ? [] : [`Values seen (never a complete list): ${seen.join('; ')}.`]),
  ].join('\n\n');
}

function listSection(): string {
  return [
    '## Lists',
    `All four resources are listed in the same way, with \`GET\` and these parameters, which may be combined:`,
    table(
      ['parameter', 'value', 'meaning'],
      [
        [
          '`paginate`',
          'integer',
          `records on a page; ${defaultPageSize} where it is left out; its maximum is not documented`,
        ],
        ['`page`', 'integer', 'which page, counted from 1'],
        ['`include`', 'names, separated by commas', 'related records that come with each record'],
        ['`filter[key]`', 'value', 'only records whose `key` equals the value; may be given for several keys'],
        ['`filter[column->key]`', 'value', 'the same for a key inside a JSON column'],
        ['`sort[key]`', code(sortDirections), 'order; several keys apply in the order in which they are given'],
        ['`date`', 'preset, or two days', 'only records created then'],
      ],
    ),
    `Presets of \`date\`: ${code(datePresets)}.
\`3days\` and the like mean created within so many days before now. A range is two days separated by a comma. One
description writes days as \`2026-03-11\`, another as \`11-03-2026\`; whether the last day belongs to the range, and in
whose time zone days begin, is not documented. admin-mirror measures all three before it relies on any
([architecture.md](architecture.md), Capabilities).`,
    table(
      ['list', '`include`', '`filter` keys', '`sort` keys'],
      resourceNames
        .map(resourceOf)
        .map((resource) => [
          resource.name,
          resource.includes === null ? 'not documented' : code(resource.includes),
          [code(resource.filterKeys), ...resource.jsonColumns.map((each) => `\`${each}->key\``)].join(', '),
          code(resource.sortKeys),
        ]),
    ),
    'In `filter[is_subscribed]`, the sample value for subscribed users is 0; in `filter[is_online]`, 1 is for users online.',
    '### The envelope',
    'Every list returns one page of records and where it lies among the others:',
    table(
      ['field', 'type', 'notes'],
      envelopeFields.map(({ name, type, note }) => [`\`${name}\``, type, note]),
    ),
    `\`links\` begins with an entry for the previous page, ends with one for the next, and has numbered entries between them;
\`...\` with \`url\` null stands for pages left out. An entry for a page that does not exist has \`url\` null.

admin-mirror reads only \`data\`, \`current_page\`, \`per_page\`, \`last_page\` and \`total\`, as numbers or as text, and builds
every address by itself: the links of some servers lose the other parameters, or begin with \`http://\` behind a proxy that
speaks https. A page other than the one requested is an error, because a server may send its first page instead.
Beyond the last page a list is empty. The page size is what the server says, not what was requested.`,
  ].join('\n\n');
}

function parameterRow(parameter: Parameter): string[] {
  const notes = [parameter.values === undefined ? '' : `one of ${code(parameter.values)}`, parameter.note];
  const text = notes.filter((each) => each !== '').join('; ');
  return [`\`${parameter.name}\``, parameter.type, parameter.required ? 'yes' : '', text];
}

function operationSection(operation: Operation): string {
  const { method, path, summary, parameters, relations, paginated, rules, confirm } = operation;
  const command = `admin-mirror ${operation.resource} ${operation.command}${path.includes('{user}') ? ' <id>' : ''}`;
  const prompts = confirm ? ' It needs consent before it sends.' : '';
  const own = operation.name === 'users.auth' ? ['Returns the user that the key belongs to.'] : [];
  const withRelations =
    relations.length === 0
      ? []
      : [
          `Related records come with the user where they are requested by a parameter of their name:
${code(relations)}.
Which value the parameter takes is not documented; admin-mirror sends 1.`,
        ];
  return [
    `### ${method} ${path}`,
    `${summary}. On the command line: \`${command}\`.${prompts}`,
    ...own,
    ...(paginated ? ['See [Lists](#lists).'] : []),
    ...(parameters.length === 0
      ? []
      : [table(['parameter', 'type', 'required', 'notes'], parameters.map(parameterRow))]),
    ...withRelations,
    ...(rules.length === 0 ? [] : [rules.map((rule) => `- ${rule}`).join('\n')]),
  ].join('\n\n');
}

const operationsOpening = `## Operations

Parameters of writes go in the body, as JSON; \`address[city]\` is the key \`city\` of the object \`address\`. Status codes and
bodies of responses are documented for lists alone. Whatever else a server sends is handed on as it came.`;

const errors = `## Errors

Neither statuses nor bodies of errors are documented. Two shapes of body are read, under any status:

    {"success": false, "errors": ["…"]}
    {"message": "…", "errors": {"field": ["…"]}}

| what comes | a read | a write |
| --- | --- | --- |
| 401, 403 | ends: the key is refused; a 403 that is a web page is tried once more | ends: the key is refused |
| 404 | ends: no such record | the same |
| 422 and other 4xx | ends, with the server's words | the same |
| 429, 503 with \`Retry-After\` | waits as long as the header says, and tries again | ends: nothing was done; where a 503 is no JSON, it may have been done |
| 408, 425, 5xx | tries again | ends: it may have been done |
| 409 | ends, with the server's words | ends: it may have been done; of a deletion the user is read back, and where it is still there, it was refused |
| a redirect | ends: it is never followed, since the key would go with it | 301, 307, 308 the same; else it may have been done |
| no connection | tries again, for 20 seconds | ends: nothing was sent |
| a broken connection, silence | tries again | ends: it may have been done |
| 2xx that is empty, cut off or a web page | tries again | ends: it may have been done |
| 2xx with \`"success": false\` | tries again | ends, with the server's words |
| a body over 16 MiB | is requested again in smaller pages | ends: it may have been done |

Bodies are read whatever they come as: compressed with gzip, deflate, br or zstd, though nothing requests it, and with a byte
order mark. \`data\` of a list may be an object whose keys are numbers.

A write is sent once. "It may have been done" ends the command with exit code 8.`;

const limits = `## Limits

No rate limit is documented. Servers of this kind commonly allow 60 requests a minute and say so in \`X-RateLimit-Limit\`
and \`X-RateLimit-Remaining\`; a request too many gets 429 and \`Retry-After\`, sometimes \`X-RateLimit-Reset\`.
admin-mirror stays under a limit that is announced, and finds out one that is not.

## Not documented

- The fields of related records; the contents of \`data\`; what \`avatar\`, \`button\` and \`attachment\` hold.
- Operations to create, show, change or delete a single package, email or coupon: there are none.
- Complete lists of the values of state-like fields, and which changes between them are possible. A user's orders have
  been seen \`active\` and \`suspended\`.
- Notifications of changes. There is no filter on the time of a change, and no list of what was deleted.
- Side effects beyond these: creating a user may send a welcome email, and a generated password where none is given;
  \`send-email\` sends an email; \`send-notification\` makes a notification.`;

/** The whole of docs/api.md. */
export function apiReference(): string {
  return `${[
    opening,
    '## Resources',
    ...resourceNames.map((name) => resourceSection(resourceOf(name))),
    values,
    listSection(),
    operationsOpening,
    ...operations.map(operationSection),
    errors,
    limits,
  ].join('\n\n')}\n`;
}
