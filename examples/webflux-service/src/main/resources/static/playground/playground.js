// The page: sends requests at the rate of the slider, counts the decisions, and shows the deciding store. Content from the service is shown
// only as text.

import { Kinds } from './kinds.js';
import { firstItem, isAway, Pace, Seconds } from './measure.js';
import { Plot } from './plot.js';

const SHOWN = 60;
// A browser opens six connections to a host: three leave one for the kinds of limits, and two for reading the state and stopping the store.
const MOST_UNDER_WAY = 3;
// Below the limit, so that the first picture shows what is allowed.
const GENTLE = 3;
// A forgotten tab stops sending after this time.
const AWAKE = 5 * 60_000;
const STEP = 50;
const FIELDS = [
  'RateLimit', 'RateLimit-Policy', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After', 'Decided-By',
  'Content-Type',
];

const STORES = new Set(['REDIS', 'POSTGRES']);

const byId = (id) => document.getElementById(id);
const pace = new Pace();
const seconds = new Seconds(SHOWN);
const plot = new Plot(SHOWN);
const sources = { STORE: 0, CACHED_DENIAL: 0, LOCAL: 0 };

// Open pages of one address do not share a count. The number is small on purpose: see application.yaml.
const page = String(crypto.getRandomValues(new Uint16Array(1))[0] % 1000).padStart(3, '0');
const hit = `playground/hit/${page}`;
const kinds = new Kinds(`playground/kinds/${page}`, SHOWN);

let rate = 0;
let underWay = 0;
let failed = 0;
let stepping = null;
let touched = performance.now();
let secondBegan = performance.now();
let last = null;
let lastShown = 0;
let permits = null;
let state = null;
let product = 'The store';
let fell = null;
let turning = false;
let looking = null;

const isAsleep = () => performance.now() - touched > AWAKE;

function touch() {
  const slept = isAsleep();
  touched = performance.now();
  if (slept) {
    look();
  }
}

/* ---- the load ---- */

function setRate(value) {
  rate = value;
  byId('rate').textContent = value;
  byId('load').value = value;
  byId('load').setAttribute('aria-valuetext', `${value} requests a second`);
  note(value === 0 ? 'Nothing is sent.' : 'Sending stops after five minutes without input on this page.');
  run();
}

/** Runs the timer only while there are requests to send and the page is visible. */
function run() {
  const running = rate > 0 && !document.hidden;
  if (running && stepping === null) {
    pace.rest();
    stepping = setInterval(step, STEP);
  } else if (!running && stepping !== null) {
    clearInterval(stepping);
    stepping = null;
  }
}

function step() {
  for (let due = pace.due(rate, performance.now(), MOST_UNDER_WAY - underWay); due > 0; due--) {
    send();
    kinds.sent();
  }
  kinds.ask(performance.now());
}

async function send() {
  underWay++;
  try {
    const response = await fetch(hit, { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
    const body = await response.text();
    answered(response, body);
  } catch (error) {
    failed++;
    // Without a response, retry at most once a second.
    pace.rest();
    await new Promise((resolve) => setTimeout(resolve, 1000));
  } finally {
    underWay--;
  }
}

function answered(response, body) {
  const source = response.headers.get('Decided-By');
  const limit = firstItem(response.headers.get('RateLimit'));
  const policy = firstItem(response.headers.get('RateLimit-Policy'));
  if (policy) {
    permits = policy.q;
    byId('policy').textContent = `${policy.q} in any ${policy.w}\u00a0s`;
  }
  const counted = STORES.has(source) ? 'STORE' : source;
  if (counted in sources) {
    sources[counted]++;
  }
  if (source && state === null) {
    text('source', source);
  }
  seconds.add(response.status, limit?.r ?? null, source);
  last = { response, body };
  if (performance.now() - lastShown > 250) {
    showLast();
  }
}

function showLast() {
  if (last === null) {
    return;
  }
  const { response, body } = last;
  const fields = FIELDS.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
  byId('response').textContent = [`${response.status} ${response.statusText}`, ...fields, '', body.slice(0, 600)].join('\n');
  lastShown = performance.now();
  last = null;
}

/* ---- once a second ---- */

function tick() {
  // A browser delays timers of a hidden page: then several seconds may have passed without requests.
  const passed = Math.floor((performance.now() - secondBegan) / 1000);
  secondBegan += passed * 1000;
  for (let i = 0; i < Math.min(passed, SHOWN); i++) {
    seconds.end(state?.source ?? null);
    kinds.end();
  }
  if (document.hidden || passed === 0) {
    return;
  }
  if (rate > 0 && isAsleep()) {
    setRate(0);
    note('Sending stopped after five minutes without input. Move the slider to continue.');
  }
  showLast();
  show();
}

function show() {
  const past = seconds.past;
  plot.draw(past, permits);
  kinds.draw();
  const now = past.at(-1);
  text('allowed', now?.allowed ?? 0);
  text('denied', now?.denied ?? 0);
  text('left', now?.left == null ? '–' : permits === null ? now.left : `${now.left} of ${permits}`);
  for (const [source, count] of Object.entries(sources)) {
    text(`by-${source}`, count);
  }
  text('failed', failed);
  if (byId('table').closest('details').open) {
    showTable(past);
  }
}

function showTable(past) {
  const rows = past.slice(-10).reverse().map((one, ago) => {
    const row = document.createElement('tr');
    const decided = one.sources.join(', ') || '–';
    for (const value of [`−${ago + 1}\u00a0s`, one.allowed, one.denied, one.left ?? '–', decided]) {
      row.append(Object.assign(document.createElement('td'), { textContent: value }));
    }
    return row;
  });
  byId('table').replaceChildren(...rows);
}

/* ---- the deciding store ---- */

/** Reads the state one second after the previous response, so that one request is in flight; every ten seconds if the page is idle. */
async function look() {
  clearTimeout(looking);
  looking = null;
  let again = true;
  try {
    const response = await fetch('playground/state', { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
    if (response.status === 403) {
      again = false;
      news(`The state is visible only on the machine of the service. ${(await response.json()).detail}.`);
    } else {
      tell(await response.json());
    }
  } catch (error) {
    state = null;
    text('source', '?');
    news('The service does not respond.');
  }
  if (again && !document.hidden) {
    clearTimeout(looking);
    looking = setTimeout(look, isAsleep() ? 10_000 : 1000);
  }
}

function tell(told) {
  const before = state;
  state = told;
  const away = isAway(told.source);
  if (away && before && !isAway(before.source)) {
    fell = before.reconciled;
  }
  text('source', told.source);
  byId('source').dataset.away = away;
  text('breaker', told.breaker.toLowerCase().replace('_', '-'));
  for (const counted of ['toReconcile', 'reconciled', 'lost', 'unknown', 'fallbacks']) {
    text(counted, told[counted].toLocaleString('en'));
  }
  text('problem', told.problem ?? '');
  byId('problem').hidden = !told.problem;
  product = told.store.product;
  for (const element of document.querySelectorAll('[data-product]')) {
    element.textContent = product;
  }
  text('server', `${product}: ${told.store.name}. ${aboutServer(told.store)}`);
  setButtons();
  if (!turning) {
    news(newsOf(told, away));
  }
}

function aboutServer({ ours, running }) {
  if (!ours) {
    return 'This server is yours: stop and start it yourself.';
  }
  return running ? 'It loses all data when it stops.' : 'It will start empty.';
}

function newsOf(told, away) {
  const { ours, running } = told.store;
  if (ours && !running) {
    return `${product} is stopped. ${away ? 'The local store decides.' : 'The next request will detect it.'}`;
  }
  if (away) {
    return `${product} is back and is being probed. The local store decides until a probe succeeds.`;
  }
  if (fell === null) {
    return `${product} responds.`;
  }
  return told.toReconcile > 0
    ? `${product} decides again. Permits granted during the outage are being reconciled.`
    : `${product} decides again. Reconciled ${told.reconciled - fell} permits that were granted during the outage.`;
}

function setButtons() {
  const { ours, running } = state.store;
  const focused = document.activeElement;
  byId('stop').disabled = !ours || !running;
  byId('start').disabled = !ours || running;
  // Keep the focus for users of the keyboard when the focused button is disabled.
  if (ours && focused?.disabled && (focused === byId('stop') || focused === byId('start'))) {
    byId(running ? 'stop' : 'start').focus();
  }
}

/** A page of another site cannot send this header: see ThisMachine. */
async function turn(what, doing) {
  if (turning) {
    return;
  }
  turning = true;
  news(`${product} is ${doing}.`);
  let refused = null;
  try {
    const response = await fetch(`playground/store/${what}`, { method: 'POST', headers: { 'X-Playground': '1' } });
    if (!response.ok) {
      refused = (await response.json()).detail;
    }
  } catch (error) {
    refused = 'The service does not respond.';
  }
  await look();
  turning = false;
  if (refused !== null) {
    news(refused);
  }
}

/* ---- texts: set only when they change, because screen readers announce some ---- */

function text(id, value) {
  const element = byId(id);
  if (element.textContent !== String(value)) {
    element.textContent = value;
  }
}

function note(value) {
  text('load-note', value);
}

function news(value) {
  text('news', value);
}

/* ---- start ---- */

for (const event of ['pointerdown', 'keydown', 'input']) {
  document.addEventListener(event, touch, { passive: true });
}
byId('path').textContent = `/${hit}`;
byId('load').addEventListener('input', (event) => setRate(event.target.valueAsNumber));
byId('stop').addEventListener('click', () => turn('stop', 'being stopped'));
byId('start').addEventListener('click', () => turn('start', 'being started'));
byId('table').closest('details').addEventListener('toggle', show);
document.addEventListener('visibilitychange', () => {
  run();
  tick();
  if (!document.hidden && looking === null) {
    look();
  }
});
addEventListener('resize', show);
setInterval(tick, 1000);
setRate(GENTLE);
note('The page starts with a gentle load. Move the slider to send more.');
show();
look();
