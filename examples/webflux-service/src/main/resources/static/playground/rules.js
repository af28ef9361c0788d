// The rules, their usage, and a field for each limit, which changes it in all instances: by the endpoint of the Actuator, as operators do.

const ENDPOINT = 'actuator/spillgate';
// The key of requests from this machine, under rules by address.
const KEY = '127.0.0.1';

const table = document.getElementById('rules');
const news = document.getElementById('published');

/** Shows the rules as they are now. */
export async function showRules() {
  const { rules, published } = await (await fetch(ENDPOINT, { cache: 'no-store' })).json();
  for (const rule of rules) {
    const row = rowOf(rule.name);
    const [input, rest, used, since] = row.querySelectorAll('input, .rest, .used, .since');
    // Such as 50/10s name=playground-10s; its number can be changed.
    const [, permits, window] = /^(\d+)(.*?)(?: name=.*)?$/.exec(rule.limits[0]);
    const value = published[rule.name];
    // During typing, the version stays too: a change of another operator is then a conflict.
    if (document.activeElement !== input) {
      row.dataset.version = value?.version ?? 0;
      input.value = permits;
    }
    rest.textContent = window;
    used.textContent = rule.key === 'address' ? await usageOf(rule.name) : '–';
    since.textContent = value ? `published at ${new Date(value.since).toLocaleTimeString('en-GB')}` : '';
    row.querySelector('.withdraw').hidden = !value;
  }
}

async function usageOf(name) {
  const response = await fetch(`${ENDPOINT}/${name}?key=${KEY}`, { cache: 'no-store' });
  return response.ok ? (await response.json()).map(({ used }) => used).join(', ') : '?';
}

/** Returns the row of a rule, which it creates the first time. */
function rowOf(name) {
  const known = [...table.rows].find((row) => row.dataset.rule === name);
  if (known) {
    return known;
  }
  const row = document.getElementById('rule').content.firstElementChild.cloneNode(true);
  row.dataset.rule = name;
  row.cells[0].textContent = name;
  const input = row.querySelector('input');
  input.setAttribute('aria-label', `permits of ${name}`);
  row.querySelector('form').addEventListener('submit', (event) => {
    event.preventDefault();
    input.blur();
    change(row, 'POST', '', {
      limits: input.value + row.querySelector('.rest').textContent,
      comment: 'by the demo',
      version: row.dataset.version,
    });
  });
  row.querySelector('.withdraw').addEventListener('click', () => change(row, 'DELETE', `?version=${row.dataset.version}`));
  table.tBodies[0].append(row);
  return row;
}

/** Publishes or withdraws limits. Reports a conflict with another operator, or a wrong value, in the words of the service. */
async function change({ dataset: { rule } }, method, query, body) {
  try {
    const response = await fetch(`${ENDPOINT}/${rule}${query}`, {
      method, headers: body && { 'Content-Type': 'application/json' }, body: body && JSON.stringify(body),
    });
    const verb = body ? 'published' : 'withdrawn';
    news.textContent = response.ok ? `The limit of ${rule} is ${verb}, and applies in all instances within 6 s.` : (await response.json()).message;
    await showRules();
  } catch (error) {
    news.textContent = 'The service does not respond.';
  }
}
