// The pages work without this script. It adds times in the reader's zone, live progress, and drag and drop.

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

function age(ms) {
  for (const [unit, size] of units) {
    const count = Math.floor(Math.abs(ms) / size);
    const text = `${count} ${unit}${count === 1 ? '' : 's'}`;
    if (count >= 1) return ms < 0 ? `in ${text}` : `${text} ago`;
  }
  return 'just now';
}

// As 2026-03-11 19:20: of one length, and in the order of time.
const local = new Intl.DateTimeFormat('sv', { dateStyle: 'short', timeStyle: 'short' });

function showTimes(within) {
  for (const time of within.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    time.textContent = 'age' in time.dataset ? age(Date.now() - at) : local.format(at);
  }
}

showTimes(document);
setInterval(() => showTimes(document), 10_000);

// Parts of a page that were still being counted when it was shown.
for (const part of document.querySelectorAll('[data-later]')) void complete(part);

async function complete(part) {
  const text = await fetch(part.dataset.later).then(
    (response) => response.text(),
    () => '',
  );
  const whole = new DOMParser().parseFromString(text, 'text/html').getElementById(part.id);
  if (whole === null) part.querySelector('.soft').textContent = 'This could not be counted in time.';
  else {
    showTimes(whole);
    part.replaceWith(whole);
  }
}

// The box for SQL: Ctrl+Enter, and the statements of this browser, until its person signs out.
const history = 'admin-mirror: statements';
const box = document.querySelector('textarea.sql');
if (box !== null) {
  const known = JSON.parse(localStorage.getItem(history) ?? '[]');
  const { form } = box;
  box.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) form.requestSubmit(form.querySelector('button'));
  });
  form.addEventListener('submit', () => {
    const sql = box.value.trim();
    localStorage.setItem(history, JSON.stringify([sql, ...known.filter((each) => each !== sql)].slice(0, 50)));
  });
  if (known.length > 0) {
    const label = document.createElement('label');
    const select = document.createElement('select');
    select.append(new Option('–', ''), ...known.map((each) => new Option(each.slice(0, 80), each)));
    select.addEventListener('change', () => {
      if (select.value !== '') box.value = select.value;
    });
    label.append('Earlier statements ', select);
    form.querySelector('.fields').append(label);
  }
}
document.querySelector('form.who')?.addEventListener('submit', () => localStorage.removeItem(history));

// Parts of a page that follow a stream of events. Each event replaces the texts that it names; the last one loads the page again.
for (const part of document.querySelectorAll('[data-events]')) {
  const lost = document.createElement('p');
  lost.setAttribute('role', 'status');
  part.append(lost);
  follow(part, lost);
}

// A browser allows few connections to one address, so a hidden tab closes its own and leaves it to others.
function follow(part, lost) {
  const onNextChange = { once: true };
  if (document.hidden) {
    document.addEventListener('visibilitychange', () => follow(part, lost), onNextChange);
    return;
  }
  const events = new EventSource(part.dataset.events);
  const pause = () => {
    events.close();
    follow(part, lost);
  };
  document.addEventListener('visibilitychange', pause, onNextChange);
  events.addEventListener('message', ({ data }) => {
    lost.textContent = '';
    const news = JSON.parse(data);
    // Strictly true: for a batch, `done` is the number of finished rows.
    if (news.done === true) {
      events.close();
      document.removeEventListener('visibilitychange', pause);
      showAnew(part);
      return;
    }
    for (const [name, value] of Object.entries(news)) {
      for (const element of document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`)) {
        if (element instanceof HTMLProgressElement) {
          if (value === null) element.removeAttribute('value');
          else element.value = value;
        } else element.textContent = value;
        // The card of a count of 0 is hidden.
        const card = element.closest('.card');
        if (card !== null) card.hidden = value === '0';
      }
    }
    showTimes(document);
  });
  events.addEventListener('error', () => {
    lost.textContent =
      'The console does not respond. What it has begun may still go on. This page continues when the console responds.';
    // The browser connects again by itself, unless the response was not a stream.
    if (events.readyState !== EventSource.CLOSED) return;
    document.removeEventListener('visibilitychange', pause);
    setTimeout(() => returnTo(part, lost), 3_000);
  });
}

const pageOf = (part) => part.dataset.events.replace(/\/events$/, '');

/** Loads the page again; but not a refused form, because that would send the form again. */
function showAnew(part) {
  const page = pageOf(part);
  if (location.pathname === page) location.reload();
  else location.replace(page);
}

/** Loads the page again if it exists or needs signing in; otherwise keeps waiting. */
async function returnTo(part, lost) {
  const { ok, type } = await fetch(pageOf(part), { redirect: 'manual' }).catch(() => Response.error());
  if (ok || type === 'opaqueredirect') showAnew(part);
  else follow(part, lost);
}

// A file that is dropped anywhere on the page goes into its form, and the progress of the upload is shown. A refusal may replace the
// form, so the listeners are on the document, not on the form.
const uploadForm = () => document.querySelector('form[data-upload]');
for (const name of ['dragover', 'drop', 'dragleave']) {
  document.addEventListener(name, (event) => {
    const form = uploadForm();
    if (form === null) return;
    event.preventDefault();
    form.classList.toggle('over', name === 'dragover');
    const { files } = event.dataTransfer;
    if (name !== 'drop' || files.length === 0) return;
    form.querySelector('input[type=file]').files = files;
    form.querySelector('[role=status]').textContent = `${files[0].name} is chosen.`;
    form.querySelector('button').focus();
  });
}

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (form !== uploadForm()) return;
  event.preventDefault();
  const progress = form.querySelector('progress');
  const status = form.querySelector('[role=status]');
  const button = form.querySelector('button');
  const readyAgain = (text) => {
    progress.hidden = true;
    button.disabled = false;
    status.textContent = text;
  };
  const failed = (why) => readyAgain(`The file could not be sent${why}. Try again.`);
  progress.hidden = false;
  button.disabled = true;
  const request = new XMLHttpRequest();
  // Not form.action, which is the field of that name.
  request.open('POST', form.getAttribute('action'));
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    progress.max = total;
    progress.value = loaded;
    if (loaded === total) progress.removeAttribute('value');
    status.textContent =
      loaded === total ? 'The file has arrived and is being checked…' : `${Math.floor((loaded / total) * 100)} % sent`;
  });
  request.addEventListener('load', () => {
    if (request.status < 400) {
      location.assign(request.responseURL);
      return;
    }
    const main = new DOMParser().parseFromString(request.responseText, 'text/html').querySelector('main');
    // A proxy may have responded instead of the console.
    if (main === null) {
      failed(` (status ${request.status})`);
      return;
    }
    showTimes(main);
    // The form keeps everything but the file, which must be another or a corrected one.
    readyAgain('');
    form.querySelector('input[type=file]').value = '';
    main.querySelector('form[data-upload]')?.replaceWith(form);
    document.querySelector('main').replaceWith(main);
    main.focus();
  });
  request.addEventListener('error', () => failed(''));
  request.send(new FormData(form));
});
