/** Every route of the console, with who may use it. No page and no button exists outside of this table. */
import { type Role, roles, seesPeople } from '../model/actor.ts';
import { auditPage, chainPage } from './pages/audit.ts';
import { downloadData, relationPage } from './pages/data.ts';
import { dataPage } from './pages/tables.ts';
import { comparePage, startAdopting, startComparing } from './pages/batch-checks.ts';
import { approve, deny, discard, goOn, sendPlanned, stopSending, submit, undo } from './pages/batch-acts.ts';
import { batchEvents } from './pages/batch-progress.ts';
import { resolve, rowPage } from './pages/batch-row.ts';
import { batchFile, batchPage } from './pages/batch.ts';
import { batchesPage, newBatchPage, templateFile, uploadSheet } from './pages/batches.ts';
import { answerQuestion, questionPage } from './pages/sheet-question.ts';
import { findPage } from './pages/find.ts';
import { homePage } from './pages/home.ts';
import { accountPage, addPerson, changePerson, peoplePage } from './pages/people.ts';
import * as signIn from './pages/sign-in.ts';
import { liveRecord, recordPage } from './pages/record.ts';
import { changeBalance } from './pages/balance.ts';
import * as reports from './pages/reports.ts';
import * as sql from './pages/sql.ts';
import { runEvents, runPage, stopRun } from './pages/run.ts';
import { newRunPage, runsPage, startRun } from './pages/runs.ts';
import type { Access, Handle, Route } from './route.ts';

const auditors: readonly Role[] = ['approver', 'operator', 'admin'];
/** A statement sees everything, including data about people. Other roles see saved reports, with masks. */
const analysts: readonly Role[] = ['analyst', 'operator', 'admin'];
const operators: readonly Role[] = ['operator', 'admin'];
const makers: readonly Role[] = ['maker'];
/** Comparing only reads the server. */
const comparers: readonly Role[] = ['maker', 'operator', 'admin'];
const approvers: readonly Role[] = ['approver'];
/** These roles may see what a batch does to whom. */
const batchRoles: readonly Role[] = ['maker', 'approver', 'operator', 'admin'];
const admins: readonly Role[] = ['admin'];
/** These roles may see data about people. */
const trusted: readonly Role[] = roles.filter((role) => seesPeople([role]));

/** A page that only shows something. @param refused the page to show if the request is refused */
function get(path: string, access: Access, handle: Handle, refused?: Handle): Route {
  return { method: 'GET', path, access, handle, ...(refused !== undefined && { refused }) };
}

/** A form that a read-only console keeps. */
function post(...route: Parameters<typeof get>): Route {
  return { ...get(...route), method: 'POST' };
}

/** A form that changes something, which a read-only console lacks. */
function change(...route: Parameters<typeof get>): Route {
  return { ...post(...route), changes: true };
}

export const routes: readonly Route[] = [
  get('/sign-in', 'anybody', signIn.signInPage),
  post('/sign-in', 'anybody', signIn.signIn, signIn.signInPage),
  get('/sign-in/oidc', 'anybody', signIn.oidcSignIn),
  get('/sign-in/oidc/callback', 'anybody', signIn.oidcCallback, signIn.signInPage),
  get('/first/:token', 'anybody', signIn.firstPage),
  change('/first/:token', 'anybody', signIn.addFirst, signIn.firstPage),
  post('/sign-out', 'anybody', signIn.signOut),
  get('/me', 'signed-in', signIn.ownPage),
  change('/me/password', 'signed-in', signIn.changeOwnPassword, signIn.ownPage),
  post('/me/sign-out-others', 'signed-in', signIn.endOtherSessions),

  get('/', 'signed-in', homePage),

  get('/runs', 'signed-in', runsPage),
  change('/runs', operators, startRun),
  get('/runs/new', operators, newRunPage),
  get('/runs/:run', 'signed-in', runPage),
  get('/runs/:run/events', 'signed-in', runEvents),
  change('/runs/:run/stop', operators, stopRun),

  get('/reports', roles, reports.reportsPage),
  get('/reports/:report', roles, reports.reportPage),
  get('/reports/:report/picture', roles, reports.reportPicture),
  get('/reports/:report/download', roles, reports.reportDownload),
  change('/reports/:report/remove', analysts, reports.removeSaved, reports.reportPage),
  get('/sql', analysts, sql.sqlPage),
  change('/sql', analysts, sql.saveQuery, sql.sqlPage),
  get('/sql/picture', analysts, sql.sqlPicture),
  get('/sql/download', analysts, sql.sqlDownload),
  get('/find', roles, findPage),
  get('/data', roles, dataPage),
  get('/data/:relation', roles, relationPage, relationPage),
  get('/data/:relation/download', roles, downloadData),
  get('/data/:relation/:id', roles, recordPage),
  post('/data/:relation/:id/live', trusted, liveRecord),
  change('/data/:relation/:id/balance', makers, changeBalance, recordPage),

  get('/batches', batchRoles, batchesPage),
  { ...change('/batches', makers, uploadSheet, newBatchPage), takesFiles: true },
  get('/batches/new', makers, newBatchPage),
  get('/batches/templates/:template', makers, templateFile),
  get('/batches/uploads/:upload', makers, questionPage),
  change('/batches/uploads/:upload', makers, answerQuestion, newBatchPage),
  get('/batches/compare', comparers, comparePage),
  change('/batches/compare', comparers, startComparing),
  change('/batches/adopt', makers, startAdopting),
  get('/batches/:batch', batchRoles, batchPage),
  get('/batches/:batch/events', batchRoles, batchEvents),
  get('/batches/:batch/files/:file', batchRoles, batchFile),
  get('/batches/:batch/rows/:row', batchRoles, rowPage),
  change('/batches/:batch/submit', makers, submit, batchPage),
  change('/batches/:batch/approve', approvers, approve, batchPage),
  change('/batches/:batch/deny', approvers, deny, batchPage),
  change('/batches/:batch/send', makers, sendPlanned, batchPage),
  change('/batches/:batch/resume', makers, goOn, batchPage),
  change('/batches/:batch/stop', makers, stopSending, batchPage),
  change('/batches/:batch/undo', makers, undo, batchPage),
  change('/batches/:batch/discard', makers, discard, batchPage),
  change('/batches/:batch/rows/:row/resolve', makers, resolve, rowPage),

  get('/audit', auditors, auditPage, auditPage),
  get('/audit/verify', auditors, chainPage),

  get('/people', admins, peoplePage),
  change('/people', admins, addPerson, peoplePage),
  get('/people/:name', admins, accountPage),
  change('/people/:name/:change', admins, changePerson, accountPage),
];
