import SqliteDatabase from 'better-sqlite3';
import type { ResourceName } from '../../../../src/model/resources.ts';
import { resourceNames } from '../../../../src/model/resources.ts';
import { timestampOf } from '../../../../src/model/time.ts';
import type { JsonRecord } from '../../../../src/sandbox/envelope.ts';
import type { World } from '../world.ts';
import { couponNamed, couponOf } from './payments.ts';
import { day, daysFrom, type Figures, groups, ordered, percent, text, wholeDays } from './shared.ts';

const couponKeys = ['id', 'code', 'discount_type', 'discount_amount', 'currency', 'allowed_uses', 'expires_at'];

const expiring: Figures = ({ now, at }) => {
  const rows = now.coupons
    .filter(({ expires_at: end }) => {
      const ms = Date.parse(String(end));
      return end !== null && ms >= at && ms < at + 30 * day;
    })
    .map((coupon) => ({
      ...Object.fromEntries(couponKeys.map((key) => [key, coupon[key]])),
      days_left: -wholeDays(at, coupon['expires_at']),
    }));
  return ordered(rows as JsonRecord[], 'expires_at', 'id');
};

const neverUsed: Figures = (world) => {
  const used = world.now.payments.flatMap((each): JsonRecord[] => {
    const name = couponNamed(each);
    const coupon = name === undefined ? undefined : couponOf(world, name);
    return coupon === undefined ? [] : [coupon];
  });
  const rows = world.now.coupons
    .filter((coupon) => !used.some((each) => each['id'] === coupon['id']))
    .map((coupon) => ({
      id: coupon['id'],
      code: coupon['code'],
      allowed_uses: coupon['allowed_uses'],
      created_at: coupon['created_at'],
      expires_at: coupon['expires_at'],
      expired: coupon['expires_at'] !== null && Date.parse(text(coupon, 'expires_at')) < world.at ? 1 : 0,
    }));
  return ordered(rows, 'created_at', 'id');
};

const usage: Figures = (world) => {
  const uses = world.now.payments.flatMap((payment) => {
    const name = couponNamed(payment);
    return name === undefined ? [] : { payment, name, coupon: couponOf(world, name) };
  });
  const rows = groups(uses, ({ coupon, name }) =>
    coupon === undefined ? name.toLowerCase() : String(coupon['id']),
  ).map(([, list]) => {
    const coupon = list[0]?.coupon;
    const times = list.flatMap(({ payment }) => (payment.record['created_at'] as string | undefined) ?? []).sort();
    return {
      id: coupon?.['id'] ?? null,
      code: coupon?.['code'] ?? list.map(({ name }) => name).sort()[0],
      allowed_uses: coupon?.['allowed_uses'] ?? null,
      payments: list.length,
      paid: list.filter(({ payment }) => text(payment.record, 'status').toLowerCase() === 'paid').length,
      users: new Set(list.map(({ payment }) => payment.user['id'])).size,
      first_used_at: times[0] ?? null,
      last_used_at: times.at(-1) ?? null,
    };
  });
  return ordered(rows as JsonRecord[], '-payments', 'code');
};

const failures: Figures = ({ now, at }) => {
  const due = (email: JsonRecord): string => String(email['scheduled_at'] ?? email['created_at']);
  const overdue = now.emails.filter((email) => email['is_sent'] === 0 && Date.parse(due(email)) < at - 3_600_000);
  const rows = groups(overdue, (email) => (text(email, 'receiver').split('@')[1] ?? 'none').toLowerCase()).map(
    ([domain, emails]) => ({
      domain: domain === 'none' ? null : domain,
      unsent: emails.length,
      users: new Set(emails.map((email) => email['user_id'])).size,
      resent: emails.filter((email) => Number(email['resent']) > 0).length,
      oldest_due_at: emails.map(due).sort()[0],
      newest_due_at: emails.map(due).sort().at(-1),
    }),
  );
  return ordered(rows as JsonRecord[], '-unsent', 'domain');
};

const volume: Figures = ({ now, at }) =>
  daysFrom(at - 30 * day, at).map((each) => {
    const emails = now.emails.filter((email) => text(email, 'created_at').startsWith(each));
    const sent = emails.filter((email) => email['is_sent'] === 1).length;
    return {
      day: each,
      emails: emails.length,
      sent,
      unsent: emails.length - sent,
      sent_percent: percent(sent, emails.length),
      resent: emails.reduce((total, email) => total + Number(email['resent']), 0),
    };
  });

const packages: Figures = ({ now }) => {
  const rows = groups(now.packages, (each) => text(each, 'status')).map(([status, list]) => ({
    status,
    packages: list.length,
    services: new Set(list.map((each) => each['service'])).size,
    allow_coupons: list.filter((each) => each['allow_coupons'] === 1).length,
    newest_at: list
      .map((each) => text(each, 'created_at'))
      .sort()
      .at(-1),
  }));
  return ordered(rows as JsonRecord[], '-packages', 'status');
};

/** What the two syncs saw: the first added everything, and the second found the differences between the two dumps. */
const changes: Figures = (world) => {
  const first = timestampOf(world.at - day);
  const second = timestampOf(world.at);
  return resourceNames.flatMap((resource) => {
    const before = new Map(world.before[resource].map((each) => [each['id'], each]));
    const now = new Map(world.now[resource].map((each) => [each['id'], each]));
    const added = [...now.keys()].filter((id) => !before.has(id)).length;
    const updated = [...now].filter(
      ([id, each]) => before.has(id) && JSON.stringify(each) !== JSON.stringify(before.get(id)),
    );
    const deleted = [...before.keys()].filter((id) => !now.has(id)).length;
    const row = (change: string, count: number, from: string, to: string) => ({
      resource,
      change,
      changes: count,
      records: count,
      first_at: count === 0 ? null : from,
      last_at: count === 0 ? null : to,
      known_since: first,
    });
    return [
      row('inserted', before.size + added, first, added === 0 ? first : second),
      row('updated', updated.length, second, second),
      row('deleted', deleted, second, second),
    ];
  });
};

const health: Figures = (world) =>
  resourceNames.map((resource) => ({
    resource,
    rows: world.now[resource].length,
    server_total: world.now[resource].length,
    fresh_as_of: timestampOf(world.at),
    age_minutes: 0,
    windows: countIn(world, 'SELECT count(*) FROM mirror_windows WHERE resource = ?', resource),
    unsettled: 0,
    last_status: 'complete',
    last_finished_at: timestampOf(world.at),
    last_complete_at: timestampOf(world.at),
    history_since: timestampOf(world.at - day),
    surprises: countIn(world, 'SELECT count(*) FROM mirror_events WHERE resource = ?', resource),
  }));

function countIn({ file }: World, sql: string, resource: ResourceName): unknown {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<[string]>(sql).pluck().get(resource);
  } finally {
    database.close();
  }
}

export const otherFigures: Readonly<Record<string, Figures>> = {
  'coupons-expiring': expiring,
  'coupons-never-used': neverUsed,
  'coupon-usage': usage,
  'email-failures': failures,
  'email-volume-by-day': volume,
  'packages-by-status': packages,
  'changes-since': changes,
  'mirror-health': health,
};
