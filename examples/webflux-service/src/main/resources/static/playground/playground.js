// The page: lets the service send requests to its instances, and shows what three limiters allow while the store stops and starts again. All
// numbers come from the service, and are shown only as text.

import { Plot } from './plot.js';
import { showRules } from './rules.js';

const PAUSE = 200;
const RULES_EVERY = 8;
// A forgotten page pauses after this time.
const AWAKE = 5 * 60_000;
// In seconds: how long the store runs at first, is stopped, and runs before the next stop.
const FIRST = 6;
const STOPPED = 10;
const RUNNING = 24;

const byId = (id) => document.getElementById(id);
const rows = [...document.querySelectorAll('[data-series]')];
const plot = new Plot();

let state = null;
let paused = false;
// Whether the page stops and starts the store without a click.
let playing = true;
let turning = false;
// In seconds, without those in which the page was paused.
let time = 0;
let last = null;
let turnsAt = FIRST;
let turned = 0;
let touched = performance.now();
let steps = 0;

/* ---- some times a second ---- */

async function step() {
  if (performance.now() - touched > AWAKE) {
    setPaused(true);
  }
  if (paused || document.hidden) {
    last = null;
  } else {
    await look(byId('load').valueAsNumber);
    if (steps++ % RULES_EVERY === 0) {
      showRules().catch(() => {});
    }
  }
  setTimeout(step, PAUSE);
}

/** Lets the service send the requests that are due, and shows what became of earlier ones. */
async function look(rate) {
  try {
    const response = await post(`traffic?rate=${rate}`);
    const body = await response.json();
    if (response.ok) {
      show(body);
    } else {
      setPaused(true);
      text('news', body.detail);
    }
  } catch (error) {
    text('news', 'The service does not respond.');
  }
}

function show(told) {
  const now = performance.now();
  time += last === null ? PAUSE / 1000 : (now - last) / 1000;
  last = now;
  state = told;
  const { traffic, store } = told;
  const limit = traffic.permits ?? 0;
  const numbers = Object.fromEntries(rows.map(({ dataset: { series } }) => [series, traffic[series].last]));
  // The requests of ten seconds, and some more, so that it rarely changes.
  const height = Math.max(byId('load').valueAsNumber * 11, limit * 2, ...Object.values(numbers));
  plot.add({ time, limit, running: store.running, ...numbers });
  plot.draw(height);
  for (const row of rows) {
    showRow(row, traffic[row.dataset.series], limit, height);
  }
  showStore(store, traffic.allowed, limit);
  showTables(traffic);
  if (playing && store.ours && !turning && time >= turnsAt) {
    turn();
  }
}

function showRow(row, { last: number, most }, limit, height) {
  const [label, strong, verdict, highest] = row.querySelectorAll('.limit span, .number strong, .number b, .number i');
  label.textContent = limit;
  label.parentElement.style.bottom = `${(limit / height) * 100}%`;
  strong.textContent = number;
  verdict.textContent = number > limit ? `${number - limit} too many` : 'within the limit';
  highest.textContent = most;
  row.classList.toggle('over', number > limit);
}

function showStore({ product, name, ours, running }, { last: number, most }, limit) {
  for (const element of document.querySelectorAll('[data-product]')) {
    element.textContent = product;
  }
  text('store', running ? 'running' : 'stopped');
  byId('store').classList.toggle('away', !running);
  text('turn', `${running ? 'Stop' : 'Start'} ${product}`);
  byId('turn').disabled = !ours || turning;
  text('about', `${product} is ${name}. ${ours ? 'It loses all data when it stops.' : 'Stop and start it yourself.'}`);
  byId('outage').hidden = plot.outage === null;
  byId('outage').style.left = `${plot.outage * 100}%`;
  if (turning) {
    return;
  }
  const soon = playing && ours ? ` It ${running ? 'stops' : 'starts'} ${turned ? 'again ' : ''}in ${Math.ceil(turnsAt - time)} s.` : '';
  if (!running) {
    text('news', `${product} is stopped. ${number > limit ? `Spillgate allows ${number}.` : 'Spillgate still holds the limit.'}`);
  } else if (turned === 0) {
    text('news', `${product} counts for all instances.${soon}`);
  } else {
    text('news', `${product} was down, and lost its data. ${most > limit ? `Spillgate allowed up to ${most}.` : 'The limit has held.'}`);
  }
}

function showTables({ allowed, denied, failed, permits, instances }) {
  text('limit', permits ?? '…');
  text('allowed', allowed.last);
  text('denied', denied.last);
  text('failed', failed.last);
  text('requests', allowed.last + denied.last + failed.last);
  const cells = instances.map((one) => {
    const { limits, source, reconciled, toReconcile, lost, grantedLocally } = one;
    // A grant that is older than the window takes no permit any more, so it needs no charge.
    const old = grantedLocally - reconciled - toReconcile - lost;
    return [`port ${one.port}`, limits, source, reconciled, old, toReconcile, lost, grantedLocally];
  });
  [...byId('grants').rows].forEach((row, at) => {
    while (row.cells.length <= cells.length) {
      row.append(document.createElement(at === 0 ? 'th' : 'td'));
    }
    cells.forEach((column, i) => {
      row.cells[i + 1].textContent = column[at];
    });
  });
  const problem = instances.map((one) => one.problem).find(Boolean);
  text('problem', problem ?? '');
  byId('problem').hidden = !problem;
}

/* ---- buttons ---- */

/** Stops the store if it runs, and starts it if not. */
async function turn() {
  const { product, running } = state.store;
  turning = true;
  turned++;
  turnsAt = time + (running ? STOPPED : RUNNING);
  try {
    const response = await post(`store/${running ? 'stop' : 'start'}`);
    if (!response.ok) {
      playing = false;
      text('news', (await response.json()).detail);
    }
  } catch (error) {
    text('news', `${product} cannot be ${running ? 'stopped' : 'started'}: the service does not respond.`);
  }
  turning = false;
}

/** Sends what a page of another site cannot send: see ThisMachine. */
function post(path) {
  return fetch(`playground/${path}`, { method: 'POST', headers: { 'X-Playground': '1' }, signal: AbortSignal.timeout(10_000) });
}

function setPaused(value) {
  paused = value;
  text('pause', value ? 'Continue' : 'Pause');
}

/** Sets a text only when it changes, because screen readers announce some. */
function text(id, value) {
  const element = byId(id);
  if (element.textContent !== String(value)) {
    element.textContent = value;
  }
}

/* ---- start ---- */

for (const row of rows) {
  row.append(byId('picture').content.cloneNode(true));
}
for (const event of ['pointerdown', 'keydown']) {
  document.addEventListener(event, () => (touched = performance.now()), { passive: true });
}
byId('pause').addEventListener('click', () => setPaused(!paused));
byId('turn').addEventListener('click', async () => {
  playing = false;
  await turn();
  look(0);
});
byId('load').addEventListener('input', () => text('rate', byId('load').value));
text('hit', `${location.host}/playground/hit`);
// For tests: nothing moves until a click.
setPaused(new URLSearchParams(location.search).has('still'));
look(0);
showRules().catch(() => {});
step();
