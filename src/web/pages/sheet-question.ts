/** What a person must say before a sheet can be planned: which column is which, and how amounts are meant. */
import type { ColumnsQuestion } from '../../bulk/sheet/columns.ts';
import { shown } from '../../bulk/sheet/rows.ts';
import { UsageError } from '../../model/errors.ts';
import { html, type Html, optionTag, selectTag } from '../html.ts';
import { actorOf, callerOf, type ConsolePorts, notFound, page, redirect, type Reply, type Visit } from '../route.ts';
import type { KeptSheet } from '../uploads.ts';

function keptOf(visit: Visit, { uploads }: ConsolePorts): KeptSheet {
  const kept = uploads.kept(visit.params['upload'] ?? '', callerOf(visit).account.name);
  if (kept === undefined) throw notFound('that sheet is not kept any more; send it again');
  return kept;
}

/** Asks which column of a sheet is which, or how its amounts are meant. */
export function questionPage(visit: Visit, ports: ConsolePorts): Reply {
  const kept = keptOf(visit, ports);
  const { id, name, question: asked } = kept;
  const to = visit.link(`/batches/uploads/${id}`);
  if ('columns' in asked) return page('Which column is which?', columnsForm(to, kept, asked.columns));
  const { row, text, count, readings } = asked.question;
  const others = count === 1 ? '' : ` (and ${count - 1} more like it)`;
  const body = html`<p>The amount of row ${row} in ${name} is ${shown(text)}${others}. What is that?</p>
    <form method="post" action="${to}">
      <p>${readings.map(({ mark, amount }) => html`<button name="mark" value="${mark}">${amount}</button> `)}</p>
      <button class="quiet" name="mark" value="none">None of these</button>
    </form>`;
  return page('How are the amounts meant?', body);
}

/** Values of `type` that a sheet may have for all rows. */
const everyRow = ['add', 'remove'];

function columnsForm(to: string, { name: sheet, forgotten }: KeptSheet, { theirs, ours }: ColumnsQuestion): Html {
  const chosen = (name: string): Html[] => {
    const { guess } = ours.find((each) => each.name === name) ?? { guess: null };
    const words = ({ name: own, values }: (typeof theirs)[number]): string =>
      values.length === 0 ? own : `${own} (${values.map((each) => each.slice(0, 20)).join(', ')})`;
    return [
      optionTag('', guess, 'not in the sheet'),
      ...(name === 'type' ? everyRow.map((each) => optionTag(`=${each}`, guess, `every row: ${each}`)) : []),
      ...theirs.map((each) => optionTag(each.name, guess, words(each))),
    ];
  };
  return html`<p>
      The columns of ${sheet} have other names. Here is what they seem to be: correct it, and it is remembered for
      sheets with the same columns.
    </p>
    ${forgotten === null ? null : html`<p class="note">What was remembered of earlier sheets is lost: ${forgotten}. What you say now is remembered anew.</p>`}
    <form method="post" action="${to}">
      <input type="hidden" name="columns" value="yes" />
      ${ours.map(({ name, required, oneOf }) => {
        const need = oneOf === null ? (required ? ' (needed)' : '') : ' (one that names the user is needed)';
        return html`<p>${selectTag(`${name}${need}`, `of:${name}`, chosen(name))}</p>`;
      })}
      <button>Plan it</button> <button class="quiet" name="mark" value="none">Do not plan it</button>
    </form>`;
}

export async function answerQuestion(visit: Visit, ports: ConsolePorts): Promise<Reply> {
  const { form, link, signal } = visit;
  const kept = keptOf(visit, ports);
  const next = await ports.uploads.decide(kept, answerIn(kept, form), actorOf(visit, ports), signal);
  if (next !== null)
    return redirect(link(typeof next === 'string' ? `/batches/${next}` : `/batches/uploads/${next.id}`));
  throw new UsageError('the sheet cannot be read so; nothing was planned', {
    advice: 'Write amounts as plain numbers, such as 1234.56, name the columns as in the template, and send it again.',
  });
}

function answerIn({ question: asked }: KeptSheet, form: Visit['form']) {
  if (form.get('mark') === 'none') return null;
  if ('question' in asked) {
    const mark = asked.question.readings.find((each) => each.mark === form.get('mark'))?.mark;
    return mark === undefined ? null : { mark };
  }
  const { theirs, ours } = asked.columns;
  const known = new Set([...theirs.map(({ name }) => name), ...everyRow.map((each) => `=${each}`)]);
  const columns = ours.flatMap(({ name }) => {
    const from = form.get(`of:${name}`) ?? '';
    return known.has(from) ? `${from}=${name}` : [];
  });
  const given = columns.map((each) => each.slice(0, each.lastIndexOf('=')));
  if (new Set(given).size < given.length) {
    throw new UsageError('one column of the sheet cannot be two things', { advice: 'Choose each column once.' });
  }
  return columns.length === 0 ? null : { columns };
}
