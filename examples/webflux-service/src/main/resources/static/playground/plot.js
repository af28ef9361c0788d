// Draws the last 30 seconds: when the store was stopped, and how many requests each limiter had allowed in the last ten seconds.

const SHOWN = 30;
const WINDOW = 10;
const WIDTH = 600;
// A hidden page is not told anything. After a longer time without a sample, the lines have a gap.
const GAP = 1;

export class Plot {
  #samples = [];
  #height = 1;

  /** @param {{time: number, running: boolean, limit: number}} sample its time in seconds; and the number of each limiter */
  add(sample) {
    const since = this.#samples.filter((one) => one.time > sample.time - WINDOW);
    // After a change of the limit, the last ten seconds contain requests that the previous one allowed.
    this.#samples.push({ ...sample, most: Math.max(sample.limit, ...since.map((one) => one.limit)) });
    while (this.#samples.length > 1 && this.#samples[1].time < this.#from) {
      this.#samples.shift();
    }
  }

  /** Draws everything, `height` requests high. */
  draw(height) {
    this.#height = height;
    for (const row of document.querySelectorAll('[data-series]')) {
      const value = (one) => one[row.dataset.series];
      const [, grid, within, above, limit] = row.querySelectorAll('path');
      grid.setAttribute('d', this.#grid());
      within.setAttribute('d', this.#areas(() => 0, (one) => Math.min(value(one), one.most)));
      above.setAttribute('d', this.#areas((one) => one.most, (one) => Math.max(value(one), one.most)));
      limit.setAttribute('d', this.#line((one) => one.limit));
    }
    for (const away of document.querySelectorAll('path.away')) {
      away.setAttribute('d', this.#areas(() => 0, (one) => (one.running ? 0 : height)));
    }
  }

  /** @returns {number|null} where the last stop of the store begins, as a part of the width */
  get outage() {
    const at = this.#samples.findLastIndex((one, i) => !one.running && (i === 0 || this.#samples[i - 1].running));
    return at < 0 ? null : this.#x(this.#samples[at].time) / WIDTH;
  }

  get #from() {
    return Math.max(0, this.#samples.at(-1).time - SHOWN);
  }

  #x(time) {
    return Math.max(0, Math.round((time - this.#from) * (WIDTH / SHOWN) * 10) / 10);
  }

  #y(value) {
    return Math.round((1 - value / this.#height) * 1000) / 10;
  }

  /** One area for each stretch of equal samples, between two values of each. */
  #areas(low, high) {
    let path = '';
    let first = 0;
    this.#samples.forEach((one, at, all) => {
      const next = all[at + 1];
      if (!next || next.time - one.time > GAP || low(next) !== low(one) || high(next) !== high(one)) {
        const until = next && next.time - one.time <= GAP ? next : one;
        path += `M${this.#x(all[first].time)} ${this.#y(low(one))}V${this.#y(high(one))}H${this.#x(until.time)}V${this.#y(low(one))}`;
        first = at + 1;
      }
    });
    return path;
  }

  /** A line through all samples, which continues to the right. */
  #line(value) {
    const steps = this.#samples.map((one) => `H${this.#x(one.time)}V${this.#y(value(one))}`);
    return `M0 ${this.#y(value(this.#samples[0]))}${steps.join('')}H${WIDTH}`;
  }

  #grid() {
    let path = '';
    for (let time = Math.ceil(this.#from / 10) * 10; time <= this.#from + SHOWN; time += 10) {
      path += `M${this.#x(time)} 0V100`;
    }
    return path;
  }
}
