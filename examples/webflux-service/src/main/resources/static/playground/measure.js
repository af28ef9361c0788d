// Calculations without a page: how many requests are due, the counts of each second, the parsed header fields, and the height of a plot.
// Time is a parameter, in milliseconds.

/** Calculates how many requests are due, so that `rate` are sent in a second however irregular the calls are. */
export class Pace {
  #last = null;
  #due = 0;

  /** @returns {number} how many to send now, `most` at most; the excess is dropped instead of sent later in a burst */
  due(rate, now, most) {
    const since = this.#last === null ? 0 : now - this.#last;
    this.#last = now;
    this.#due = rate === 0 ? 0 : this.#due + (rate * since) / 1000;
    const whole = Math.floor(this.#due);
    this.#due -= whole;
    return Math.min(whole, most);
  }

  /** Restarts the calculation, so that nothing is due for the time before. */
  rest() {
    this.#last = null;
    this.#due = 0;
  }
}

/** @returns {boolean} whether a decision of this source was made without the server that keeps the counts */
export const isAway = (source) => source === 'LOCAL' || source === 'FALLBACK';

/** Counts responses in each second, and keeps the last `length` seconds. */
export class Seconds {
  #length;
  #past = [];
  #now = Seconds.#empty();

  constructor(length) {
    this.#length = length;
  }

  static #empty() {
    return { allowed: 0, denied: 0, left: null, sources: new Set() };
  }

  /** Counts a response: its status, its remaining permits, and the store that decided. */
  add(status, left, source) {
    if (status === 429) {
      this.#now.denied++;
    } else if (status >= 200 && status < 300) {
      this.#now.allowed++;
    }
    this.#now.left = left;
    if (source) {
      this.#now.sources.add(source);
    }
  }

  /** Ends a second. `decides` is the store that would have decided, as far as was known. */
  end(decides) {
    const sources = [...this.#now.sources].sort();
    this.#past.push({ ...this.#now, sources, away: [decides, ...sources].some(isAway) });
    if (this.#past.length > this.#length) {
      this.#past.shift();
    }
    this.#now = Seconds.#empty();
  }

  /** @returns the seconds that have ended, the oldest first */
  get past() {
    return this.#past;
  }
}

/**
 * Reads the first item of RateLimit or RateLimit-Policy, as in `"playground-10s";q=50;w=10`.
 *
 * @returns {{name: string, [parameter: string]: string|number} | null} null if it is none
 */
export function firstItem(field) {
  const item = /^\s*"((?:[^"\\]|\\.)*)"((?:\s*;\s*[a-z*][a-z0-9_.*-]*(?:=(?:-?\d+|"(?:[^"\\]|\\.)*"))?)*)/.exec(field ?? '');
  if (!item) {
    return null;
  }
  const read = { name: item[1].replace(/\\(.)/g, '$1') };
  for (const [, key, value] of item[2].matchAll(/;\s*([a-z*][a-z0-9_.*-]*)(?:=(-?\d+|"(?:[^"\\]|\\.)*"))?/g)) {
    read[key] = value === undefined ? true : value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : Number(value);
  }
  return read;
}

/** @returns {number} the smallest round number that is not below `most`: 4, 10, 20, 40, 60, 80, 100 and so on */
export function top(most) {
  if (most <= 4) {
    return 4;
  }
  const ten = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 6, 8, 10].map((times) => times * ten).find((height) => height >= most);
}
