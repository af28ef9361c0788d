// Draws two plots, one above the other: bars of the allowed and denied requests of each second, and a line of the remaining permits. The
// page contains the elements; this script positions them, once a second.

import { top } from './measure.js';

const LEFT = 30;
const RIGHT = 6;
const RATE = { from: 22, to: 168 };
const REST = { from: 208, to: 268 };
const TIME = 288;

export class Plot {
  #length;
  #width = 0;

  /** @param {number} length how many seconds are shown */
  constructor(length) {
    this.#length = length;
  }

  /** Draws the seconds, the newest at the right, for a limit of `permits`. */
  draw(seconds, permits) {
    this.#width = element('plot').getBoundingClientRect().width;
    if (this.#width <= LEFT + RIGHT + this.#length) {
      // Too narrow, as for a moment while a window is resized.
      return;
    }
    const height = top(Math.max(...seconds.map((one) => one.allowed + one.denied), 8));
    const most = permits ?? 1;
    const y = (value) => RATE.to - (value / height) * (RATE.to - RATE.from);
    const rest = (value) => REST.to - (Math.min(value, most) / most) * (REST.to - REST.from);

    this.#grid([
      [0, y(0)],
      [height / 2, y(height / 2)],
      [height, y(height)],
      [0, rest(0)],
      [permits ?? '', rest(most)],
    ]);
    this.#captions();
    this.#times();

    const bars = (from, to) =>
      seconds.map((one, at) => (to(one) > from(one) ? this.#bar(at, seconds, y(to(one)), y(from(one))) : '')).join('');
    this.#path('bars-allowed', bars(() => 0, (one) => one.allowed));
    this.#path('bars-denied', bars((one) => one.allowed, (one) => one.allowed + one.denied));
    this.#path('away', this.#stretches(seconds));
    this.#rest(seconds, rest);
  }

  get #second() {
    return (this.#width - LEFT - RIGHT) / this.#length;
  }

  get #gap() {
    return this.#second > 6 ? 2 : 1;
  }

  /** Where a second begins. */
  #x(at, seconds) {
    return LEFT + (this.#length - seconds.length + at) * this.#second;
  }

  #bar(at, seconds, from, to) {
    const width = (this.#second - this.#gap).toFixed(1);
    return `M${this.#x(at, seconds).toFixed(1)} ${from.toFixed(1)}h${width}V${to.toFixed(1)}h-${width}z`;
  }

  /** One box for each stretch of seconds, because adjacent boxes would show a seam. */
  #stretches(seconds) {
    return seconds
      .map((one, at) => {
        const begins = one.away && !seconds[at - 1]?.away;
        const ends = one.away && !seconds[at + 1]?.away;
        const begin = begins ? `M${this.#x(at, seconds).toFixed(1)} ${REST.to}V${RATE.from}` : '';
        return begin + (ends ? `H${this.#x(at + 1, seconds).toFixed(1)}V${REST.to}z` : '');
      })
      .join('');
  }

  /** A line with a gap in seconds without a response. */
  #rest(seconds, y) {
    let line = '';
    let area = '';
    let last = null;
    seconds.forEach((one, at) => {
      if (one.left !== null) {
        const [from, to] = [this.#x(at, seconds), this.#x(at + 1, seconds)].map((x) => x.toFixed(1));
        line += `${last === null ? 'M' : 'L'}${from} ${y(one.left).toFixed(1)}H${to}`;
        area += `M${from} ${REST.to}V${y(one.left).toFixed(1)}H${to}V${REST.to}z`;
      }
      last = one.left;
    });
    this.#path('left-line', line);
    this.#path('left-area', area);
  }

  #grid(lines) {
    lines.forEach(([value, y], at) => {
      const [line, text] = element('grid').children[at].children;
      set(line, { x1: LEFT, x2: this.#width - RIGHT, y1: y, y2: y });
      set(text, { x: LEFT - 6, y: y + 4 });
      text.textContent = value;
    });
  }

  #captions() {
    set(element('caption-rate'), { x: LEFT, y: 12 });
    set(element('caption-left'), { x: LEFT, y: REST.from - 10 });
  }

  #times() {
    [...element('time').children].forEach((text, at, all) => {
      const ago = Math.round((this.#length * (all.length - 1 - at)) / (all.length - 1));
      set(text, { x: this.#width - RIGHT - ago * this.#second, y: TIME });
      text.textContent = ago === 0 ? 'now' : `−${ago} s`;
    });
  }

  #path(id, d) {
    element(id).setAttribute('d', d);
  }
}

function element(id) {
  return document.getElementById(id);
}

function set(shape, places) {
  for (const [name, place] of Object.entries(places)) {
    shape.setAttribute(name, place.toFixed(1));
  }
}
