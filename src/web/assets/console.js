// What scripts add to pages that work without them: times in the reader's zone, live progress, drag and drop.

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

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function showTimes(within) {
  for (const time of within.querySelectorAll('time[datetime]')) {
    const at = new Date(time.dateTime);
    time.textContent = 'age' in time.dataset ? age(Date.now() - at) : local.format(at);
  }
}

showTimes(document);
setInterval(() => showTimes(document), 10_000);

// A part of the page that follows what happens: each event replaces the text of what it names, or asks for the page anew.
for (const part of document.querySelectorAll('[data-events]')) {
  const lost = document.createElement('p');
  lost.setAttribute('role', 'status');
  part.append(lost);
  follow(part, lost);
}

// A browser has few connections to one address: a tab that nobody sees gives its own back, so that others need not wait for it.
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
    // Of a batch it is also how many rows are done.
    if (news.done === true) {
      events.close();
      document.removeEventListener('visibilitychange', pause);
      showAnew(part);
      return;
    }
    for (const [name, value] of Object.entries(news)) {
      for (const place of document.querySelectorAll(`[data-live="${CSS.escape(name)}"]`)) {
        if (place instanceof HTMLProgressElement) {
          if (value === null) place.removeAttribute('value');
          else place.value = value;
        } else place.textContent = value;
        // A count of nothing has no card.
        const card = place.closest('.card');
        if (card !== null) card.hidden = value === '0';
      }
    }
    showTimes(document);
  });
  events.addEventListener('error', () => {
    lost.textContent =
      'The console does not respond. What it has begun may go on; this page follows as soon as it does.';
    // The browser tries by itself until it gets a response that is no stream.
    if (events.readyState !== EventSource.CLOSED) return;
    document.removeEventListener('visibilitychange', pause);
    setTimeout(() => returnTo(part, lost), 3_000);
  });
}

const pageOf = (part) => part.dataset.events.replace(/\/events$/, '');

/** Never what a form was refused with: loading that anew would send the form again. */
function showAnew(part) {
  const page = pageOf(part);
  if (location.pathname === page) location.reload();
  else location.replace(page);
}

/** Shows the page anew where it is there, or somebody has to sign in for it; else waits for that. */
async function returnTo(part, lost) {
  const { ok, type } = await fetch(pageOf(part), { redirect: 'manual' }).catch(() => Response.error());
  if (ok || type === 'opaqueredirect') showAnew(part);
  else follow(part, lost);
}

// A file dropped anywhere on the page is the file of its form; how much of it is sent is shown. What a refusal shows in the place
// of the page works in the same way: nothing is bound to the form itself.
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
  const readyAgain = (said) => {
    progress.hidden = true;
    button.disabled = false;
    status.textContent = said;
  };
  const failed = (why) => readyAgain(`The file could not be sent${why}. Try again.`);
  progress.hidden = false;
  button.disabled = true;
  const request = new XMLHttpRequest();
  // Not form.action: that is its field of this name.
  request.open('POST', form.getAttribute('action'));
  request.upload.addEventListener('progress', ({ loaded, total }) => {
    progress.max = total;
    progress.value = loaded;
    if (loaded === total) progress.removeAttribute('value');
    status.textContent =
      loaded === total ? 'The file is here and is being checked…' : `${Math.floor((loaded / total) * 100)} % sent`;
  });
  request.addEventListener('load', () => {
    if (request.status < 400) {
      location.assign(request.responseURL);
      return;
    }
    const main = new DOMParser().parseFromString(request.responseText, 'text/html').querySelector('main');
    // A proxy may have responded in place of the console.
    if (main === null) {
      failed(` (status ${request.status})`);
      return;
    }
    showTimes(main);
    // What was chosen stays, but for the file: the next one is another, or has changed.
    readyAgain('');
    form.querySelector('input[type=file]').value = '';
    main.querySelector('form[data-upload]')?.replaceWith(form);
    document.querySelector('main').replaceWith(main);
    main.focus();
  });
  request.addEventListener('error', () => failed(''));
  request.send(new FormData(form));
});
