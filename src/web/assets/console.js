// What scripts add to pages that work without them: times in the reader's zone, live progress, sorting, drag and drop.

const units = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
];

function age(ms) {
  for (const [unit, size] of units) {
    const count = Math.floor(Math.abs(ms) / size);
    if (count >= 1) return `${count} ${unit}${count === 1 ? '' : 's'} ${ms < 0 ? 'ahead' : 'ago'}`;
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
  const events = new EventSource(part.dataset.events);
  events.addEventListener('message', ({ data }) => {
    const news = JSON.parse(data);
    if (news.done) {
      events.close();
      location.reload();
      return;
    }
    for (const [name, value] of Object.entries(news)) {
      for (const place of part.querySelectorAll(`[data-live="${CSS.escape(name)}"]`)) {
        if (place instanceof HTMLProgressElement) {
          if (value === null) place.removeAttribute('value');
          else place.value = value;
        } else place.textContent = value;
      }
    }
    showTimes(part);
  });
}

// Sorting of the rows on this page by a click on the head of a column; numbers by their value.
for (const table of document.querySelectorAll('table[data-sort]')) {
  for (const [column, head] of [...table.tHead.rows[0].cells].entries()) {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'quiet';
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const [body] = table.tBodies;
      const key = (row) =>
        row.cells[column]?.querySelector('time')?.dateTime ?? row.cells[column]?.textContent.trim() ?? '';
      const rows = [...body.rows].sort((a, b) => key(a).localeCompare(key(b), undefined, { numeric: true }));
      body.append(...(down ? rows.reverse() : rows));
    });
  }
}

// A file dropped on the field is the file of the field; how much of it is sent is shown.
for (const drop of document.querySelectorAll('.drop')) {
  const input = drop.querySelector('input[type=file]');
  for (const name of ['dragenter', 'dragover']) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.add('over');
    });
  }
  for (const name of ['dragleave', 'drop']) drop.addEventListener(name, () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    if (event.dataTransfer.files.length > 0) input.files = event.dataTransfer.files;
  });
}
for (const form of document.querySelectorAll('form[data-upload]')) {
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    const progress = form.querySelector('progress');
    const status = form.querySelector('[role=status]');
    progress.hidden = false;
    const request = new XMLHttpRequest();
    request.open('POST', form.action);
    request.upload.addEventListener('progress', ({ loaded, total }) => {
      progress.max = total;
      progress.value = loaded;
      status.textContent =
        loaded === total ? 'The file is here and is being checked…' : `${Math.floor((loaded / total) * 100)} % sent`;
    });
    request.addEventListener('load', () => {
      if (request.status < 400) {
        location.assign(request.responseURL);
        return;
      }
      const shown = new DOMParser().parseFromString(request.responseText, 'text/html');
      document.querySelector('main').replaceWith(shown.querySelector('main'));
      document.querySelector('main').focus();
    });
    request.addEventListener('error', () => {
      status.textContent = 'The file could not be sent. Try again.';
    });
    request.send(new FormData(form));
  });
}
