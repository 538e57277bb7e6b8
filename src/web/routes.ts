/** Every route of the console with who may use it: there is no page and no button beside this table. */
import { type Role, roles, seesPeople } from '../model/account.ts';
import { auditPage, chainPage } from './pages/audit.ts';
import { dataPage, downloadData, relationPage } from './pages/data.ts';
import { comparePage, startAdopting, startComparing } from './pages/batch-checks.ts';
import { batchEvents } from './pages/batch-next.ts';
import { batchPage } from './pages/batch.ts';
import { approve, deny, goOn, resolve, rowPage, sendPlanned, stopSending, submit, undo } from './pages/batch-acts.ts';
import { receiptFile, resultsFile, sheetFile } from './pages/batch-files.ts';
import { batchesPage, decideMark, questionPage, templateFile, uploadSheet } from './pages/batches.ts';
import { homePage } from './pages/home.ts';
import { accountPage, addPerson, changePerson, peoplePage } from './pages/people.ts';
import * as signIn from './pages/sign-in.ts';
import { liveRecord, recordPage } from './pages/record.ts';
import * as reports from './pages/reports.ts';
import { runEvents, runPage, stopRun } from './pages/run.ts';
import { newRunPage, runsPage, startRun } from './pages/runs.ts';
import type { Route } from './route.ts';

const auditors: readonly Role[] = ['approver', 'operator', 'admin'];
/** A statement sees everything, people's data too; of saved reports, others see what is masked. */
const analysts: readonly Role[] = ['analyst', 'operator', 'admin'];
const operators: readonly Role[] = ['operator', 'admin'];
const makers: readonly Role[] = ['maker'];
/** Comparing reads the server and changes nothing. */
const comparers: readonly Role[] = ['maker', 'operator', 'admin'];
const approvers: readonly Role[] = ['approver'];
/** Whoever may see what a batch does to whom. */
const batchRoles: readonly Role[] = ['maker', 'approver', 'operator', 'admin'];
const admins: readonly Role[] = ['admin'];
/** Whoever may see people's data. */
const trusted: readonly Role[] = roles.filter((role) => seesPeople([role]));

export const routes: readonly Route[] = [
  { method: 'GET', path: '/sign-in', access: 'anybody', handle: signIn.signInPage },
  { method: 'POST', path: '/sign-in', access: 'anybody', handle: signIn.signIn },
  { method: 'GET', path: '/sign-in/oidc', access: 'anybody', handle: signIn.oidcSignIn },
  { method: 'GET', path: '/sign-in/oidc/callback', access: 'anybody', handle: signIn.oidcCallback },
  { method: 'GET', path: '/first/:token', access: 'anybody', handle: signIn.firstPage },
  { method: 'POST', path: '/first/:token', access: 'anybody', handle: signIn.addFirst, changes: true },
  { method: 'POST', path: '/sign-out', access: 'anybody', handle: signIn.signOut },
  { method: 'GET', path: '/me', access: 'signed-in', handle: signIn.ownPage },
  { method: 'POST', path: '/me/password', access: 'signed-in', handle: signIn.changeOwnPassword, changes: true },
  { method: 'POST', path: '/me/sign-out-others', access: 'signed-in', handle: signIn.endOtherSessions },

  { method: 'GET', path: '/', access: 'signed-in', handle: homePage },

  { method: 'GET', path: '/runs', access: 'signed-in', handle: runsPage },
  { method: 'POST', path: '/runs', access: operators, handle: startRun, changes: true },
  { method: 'GET', path: '/runs/new', access: operators, handle: newRunPage },
  { method: 'GET', path: '/runs/:run', access: 'signed-in', handle: runPage },
  { method: 'GET', path: '/runs/:run/events', access: 'signed-in', handle: runEvents },
  { method: 'POST', path: '/runs/:run/stop', access: operators, handle: stopRun, changes: true },

  { method: 'GET', path: '/reports', access: roles, handle: reports.reportsPage },
  { method: 'GET', path: '/reports/:report', access: roles, handle: reports.reportPage },
  { method: 'GET', path: '/reports/:report/picture', access: roles, handle: reports.reportPicture },
  { method: 'GET', path: '/reports/:report/download', access: roles, handle: reports.reportDownload },
  { method: 'GET', path: '/sql', access: analysts, handle: reports.sqlPage },
  { method: 'GET', path: '/sql/picture', access: analysts, handle: reports.sqlPicture },
  { method: 'GET', path: '/sql/download', access: analysts, handle: reports.sqlDownload },
  { method: 'GET', path: '/data', access: roles, handle: dataPage },
  { method: 'GET', path: '/data/:relation', access: roles, handle: relationPage },
  { method: 'GET', path: '/data/:relation/download', access: roles, handle: downloadData },
  { method: 'GET', path: '/data/:relation/:id', access: roles, handle: recordPage },
  { method: 'POST', path: '/data/:relation/:id/live', access: trusted, handle: liveRecord },

  { method: 'GET', path: '/batches', access: batchRoles, handle: batchesPage },
  { method: 'POST', path: '/batches', access: makers, handle: uploadSheet, takesFiles: true, changes: true },
  { method: 'GET', path: '/batches/templates/:template', access: makers, handle: templateFile },
  { method: 'GET', path: '/batches/uploads/:upload', access: makers, handle: questionPage },
  { method: 'POST', path: '/batches/uploads/:upload', access: makers, handle: decideMark, changes: true },
  { method: 'GET', path: '/batches/compare', access: comparers, handle: comparePage },
  { method: 'POST', path: '/batches/compare', access: comparers, handle: startComparing, changes: true },
  { method: 'POST', path: '/batches/adopt', access: makers, handle: startAdopting, changes: true },
  { method: 'GET', path: '/batches/:batch', access: batchRoles, handle: batchPage },
  { method: 'GET', path: '/batches/:batch/events', access: batchRoles, handle: batchEvents },
  { method: 'GET', path: '/batches/:batch/sheets/:sheet', access: batchRoles, handle: sheetFile },
  { method: 'GET', path: '/batches/:batch/results/:result', access: batchRoles, handle: resultsFile },
  { method: 'GET', path: '/batches/:batch/receipts/:receipt', access: batchRoles, handle: receiptFile },
  { method: 'GET', path: '/batches/:batch/rows/:row', access: batchRoles, handle: rowPage },
  { method: 'POST', path: '/batches/:batch/submit', access: makers, handle: submit, changes: true },
  { method: 'POST', path: '/batches/:batch/approve', access: approvers, handle: approve, changes: true },
  { method: 'POST', path: '/batches/:batch/deny', access: approvers, handle: deny, changes: true },
  { method: 'POST', path: '/batches/:batch/send', access: makers, handle: sendPlanned, changes: true },
  { method: 'POST', path: '/batches/:batch/resume', access: makers, handle: goOn, changes: true },
  { method: 'POST', path: '/batches/:batch/stop', access: makers, handle: stopSending, changes: true },
  { method: 'POST', path: '/batches/:batch/undo', access: makers, handle: undo, changes: true },
  { method: 'POST', path: '/batches/:batch/rows/:row/resolve', access: makers, handle: resolve, changes: true },

  { method: 'GET', path: '/audit', access: auditors, handle: auditPage },
  { method: 'GET', path: '/audit/verify', access: auditors, handle: chainPage },

  { method: 'GET', path: '/people', access: admins, handle: peoplePage },
  { method: 'POST', path: '/people', access: admins, handle: addPerson, changes: true },
  { method: 'GET', path: '/people/:name', access: admins, handle: accountPage },
  { method: 'POST', path: '/people/:name/:change', access: admins, handle: changePerson, changes: true },
];
