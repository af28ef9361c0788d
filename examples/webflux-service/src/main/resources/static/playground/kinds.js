// The pictures of the kinds of limits: the service decides on the requests of the page under each kind, and each picture shows the allowed
// and denied ones of each second. The page contains the elements; this script fills them.

import { top } from './measure.js';

// One call at a time, so that it takes one of the connections that a browser opens to a host.
const PAUSE = 200;
const MOST = 20;

export class Kinds {
  #path;
  #length;
  #sent = 0;
  #isAsking = false;
  #askedAt = -PAUSE;
  #kinds = new Map();

  /**
   * @param {string} path the path of the endpoint
   * @param {number} length how many seconds are shown
   */
  constructor(path, length) {
    this.#path = path;
    this.#length = length;
    for (const figure of document.querySelectorAll('figure[data-kind]')) {
      this.#kinds.set(figure.dataset.kind, { figure, past: [], now: { allowed: 0, denied: 0 } });
    }
  }

  /** Notes that the page has sent a request. */
  sent() {
    // If the service does not keep up, the excess is dropped.
    this.#sent = Math.min(this.#sent + 1, MOST);
  }

  /** Lets the service decide on the requests since the last call, unless that is in flight or was just made. */
  async ask(now) {
    if (this.#isAsking || this.#sent === 0 || now - this.#askedAt < PAUSE) {
      return;
    }
    this.#isAsking = true;
    this.#askedAt = now;
    const requests = this.#sent;
    this.#sent = 0;
    try {
      const response = await fetch(`${this.#path}?requests=${requests}`, { cache: 'no-store', signal: AbortSignal.timeout(10_000) });
      if (response.ok) {
        this.#add(await response.json());
      }
    } catch (error) {
      // The page shows elsewhere that the service does not respond.
    } finally {
      this.#isAsking = false;
    }
  }

  #add(decided) {
    for (const { kind, limit, allowed, denied } of decided) {
      const known = this.#kinds.get(kind);
      if (known) {
        known.now.allowed += allowed;
        known.now.denied += denied;
        set(known.figure.querySelector('code'), limit);
      }
    }
  }

  /** Ends a second. */
  end() {
    for (const kind of this.#kinds.values()) {
      kind.past.push(kind.now);
      kind.now = { allowed: 0, denied: 0 };
      if (kind.past.length > this.#length) {
        kind.past.shift();
      }
    }
  }

  /** Draws all pictures to the same scale, the newest second at the right. */
  draw() {
    const all = [...this.#kinds.values()];
    const height = top(Math.max(8, ...all.flatMap(({ past }) => past.map((one) => one.allowed + one.denied))));
    for (const { figure, past } of all) {
      const [allowed, denied] = figure.querySelectorAll('path');
      allowed.setAttribute('d', this.#bars(past, height, () => 0, (one) => one.allowed));
      denied.setAttribute('d', this.#bars(past, height, (one) => one.allowed, (one) => one.allowed + one.denied));
      const [sumAllowed, sumDenied] = figure.querySelectorAll('b');
      set(sumAllowed, past.reduce((sum, one) => sum + one.allowed, 0));
      set(sumDenied, past.reduce((sum, one) => sum + one.denied, 0));
    }
  }

  /** In units of the picture: a second is 10 wide, and the picture is 100 high. */
  #bars(past, height, from, to) {
    const y = (value) => (100 - (value / height) * 100).toFixed(1);
    const x = (at) => (this.#length - past.length + at) * 10;
    const bar = (one, at) => `M${x(at)} ${y(from(one))}V${y(to(one))}h8V${y(from(one))}z`;
    return past.map((one, at) => (to(one) > from(one) ? bar(one, at) : '')).join('');
  }
}

function set(element, value) {
  if (element.textContent !== String(value)) {
    element.textContent = value;
  }
}
