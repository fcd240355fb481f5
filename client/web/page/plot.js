// SPDX-License-Identifier: Apache-2.0
// Curves over tokens. Points that are too many for the screen are reduced to
// ranges: a single outlier among thousands of tokens stays visible.
import { ticksOf } from "./axis.js";
import { h, svg } from "./dom.js";
import { countText, numberText } from "./format.js";

// Points of one curve that are drawn.
const POINTS_MAX = 480;
// Curves with fewer points have dots.
const DOTS_MAX = 48;
const HEIGHT = 340;
const TOP = 10;
const BOTTOM = 40;
const RIGHT = 14;

/**
 * @typedef {{name: string, color: number, dash: number, x: number[], y: number[]}} Series
 *     A curve. Values that do not exist are NaN.
 * @typedef {{low: number, high: number, mean: number, count: number, odd: number,
 *     nan: number, hidden: number, least: number}} Point The values of a range of
 *     tokens that are drawn, and the numbers of others: infinite, NaN, and those
 *     at 0 or below on a logarithmic scale, with the least of these.
 * @typedef {{series: Series[], first: number, step: number, points:
 *     Map<number, Point>[]}} Reduced Points by number of their range.
 */

/**
 * Reduces all curves over the same ranges of tokens.
 * @param {Series[]} series
 * @param {boolean} isLog
 * @returns {Reduced}
 */
export function reduce(series, isLog) {
  let first = Infinity;
  let last = -Infinity;
  for (const { x } of series) {
    for (const token of x) {
      first = Math.min(first, token);
      last = Math.max(last, token);
    }
  }
  const step = last < first ? 1 : Math.ceil((last - first + 1) / POINTS_MAX);
  const points = series.map(({ x, y }) => {
    /** @type {Map<number, Point>} */
    const found = new Map();
    x.forEach((token, i) => {
      const range = Math.floor((token - first) / step);
      let point = found.get(range);
      if (!point) {
        point = { low: Infinity, high: -Infinity, mean: 0, count: 0, odd: 0, nan: 0, hidden: 0, least: 0 };
        found.set(range, point);
      }
      if (!Number.isFinite(y[i])) {
        point[Number.isNaN(y[i]) ? "nan" : "odd"] += 1;
        return;
      }
      if (isLog && y[i] <= 0) {
        point.hidden += 1;
        point.least = Math.min(point.least, y[i]);
        return;
      }
      point.count += 1;
      point.low = Math.min(point.low, y[i]);
      point.high = Math.max(point.high, y[i]);
      // The difference of two numbers may be too large for a number.
      point.mean += y[i] / point.count - point.mean / point.count;
    });
    return found;
  });
  return { series, first, step, points };
}

/** @param {Reduced} reduced @param {number} range */
const tokensText = ({ first, step }, range) => step === 1 ? String(first + range)
    : `${first + range * step}\u2013${first + (range + 1) * step - 1}`;

/** @param {Point | undefined} point */
function pointText(point) {
  if (!point) return "-";
  const texts = [];
  if (point.count > 0) {
    texts.push(point.low === point.high ? numberText(point.low)
        : `${numberText(point.low)} to ${numberText(point.high)}`);
  }
  if (point.hidden > 0) texts.push((point.hidden > 1 ? `${point.hidden} from ` : "") + numberText(point.least));
  if (point.odd > 0) texts.push(point.odd === 1 ? "infinite" : `${point.odd} infinite`);
  if (point.nan > 0) texts.push(point.nan === 1 ? "no value" : `${point.nan} without a value`);
  return texts.join(", ");
}

export class Plot {
  /** @param {string} xName @param {AbortSignal} signal */
  constructor(xName, signal) {
    this.xName = xName;
    this.isLog = false;
    /** @type {Reduced} */
    this.reduced = reduce([], false);
    // Numbers of the ranges that have a point, ascending.
    /** @type {number[]} */
    this.ranges = [];
    this.cursor = -1;
    this.chart = h("div", {
      class: "plot", tabindex: "0", role: "application",
      "aria-label": "Curves. Arrow keys move along them, and their values are read. A table follows.",
      onkeydown: (event) => this.onKey(event),
      onpointermove: (event) => this.onPoint(event),
    });
    this.tip = h("p", { class: "dim tip", role: "status" });
    this.note = h("p", { class: "dim" });
    this.legend = h("div", { class: "legend" });
    this.table = h("details", { ontoggle: () => this.fillTable() }, h("summary", {}, "The values as a table"), h("div"));
    this.element = h("div", {}, this.legend, this.chart, this.tip, this.note, this.table);
    new ResizeObserver(() => this.draw()).observe(this.chart);
    signal.addEventListener("abort", () => this.chart.replaceChildren());
  }

  /** @param {Series[]} series @param {boolean} isLog */
  show(series, isLog) {
    this.isLog = isLog;
    this.reduced = reduce(series, isLog);
    this.ranges = [...new Set(this.reduced.points.flatMap((points) => [...points.keys()]))].sort((a, b) => a - b);
    this.cursor = Math.min(this.cursor, this.ranges.length - 1);
    this.legend.replaceChildren(...series.map(({ name, color, dash }) => h("span", {},
        svg("svg", { class: "key", viewBox: "0 0 28 8", "aria-hidden": "true" },
            svg("path", { class: `curve c${color} d${dash}`, d: "M0 4H28" })), name)));
    const { step } = this.reduced;
    const notes = [];
    if (step > 1) {
      notes.push(`Each point is ${step} ${this.xName}s: the band reaches from their lowest to their ` +
        "highest value, and the line is their mean.");
    }
    const all = this.reduced.points.flatMap((points) => [...points.values()]);
    const hidden = all.reduce((sum, point) => sum + point.hidden, 0);
    if (hidden > 0) notes.push(`Values at 0 or below are not shown on a logarithmic scale: ${countText(hidden)}.`);
    if (all.some(({ nan }) => nan > 0)) notes.push("A cross is a token without a value.");
    this.note.textContent = notes.join(" ");
    this.draw();
    this.fillTable();
  }

  /** The values that are drawn, and how they become pixels. */
  scale() {
    const width = Math.max(this.chart.clientWidth, 200);
    let [low, high] = [Infinity, -Infinity];
    for (const points of this.reduced.points) {
      for (const point of points.values()) {
        if (point.count === 0) continue;
        low = Math.min(low, point.low);
        high = Math.max(high, point.high);
      }
    }
    if (low > high) [low, high] = this.isLog ? [1, 10] : [0, 1];
    const forward = this.isLog ? Math.log10 : (/** @type {number} */ v) => v;
    let [from, to] = [forward(low), forward(high)];
    // Numbers that are too close for a scale are one.
    if (to - from <= Math.abs(from) * 1e-12) {
      const pad = this.isLog ? 0.5 : Math.abs(from) * 0.1 || 1;
      [from, to] = [from - pad, to + pad];
    }
    const ticks = this.isLog
        ? ticksOf(from, to, 5).filter((t) => Number.isInteger(t) || to - from < 3).map((t) => 10 ** t)
        : ticksOf(from, to, 5);
    const texts = ticks.map((tick) => numberText(Number(tick.toPrecision(4))));
    const left = Math.min(96, 14 + 7 * Math.max(1, ...texts.map((text) => text.length)));
    const last = this.ranges.length ? this.ranges[this.ranges.length - 1] : 0;
    const begin = this.ranges[0] || 0;
    // Halves, since the difference of two numbers may be too large for a number.
    const part = (/** @type {number} */ v) => (forward(v) / 2 - from / 2) / (to / 2 - from / 2);
    return {
      width, left, ticks, texts, begin, last,
      x: (/** @type {number} */ range) => last === begin ? (left + width - RIGHT) / 2
          : left + (width - RIGHT - left) * (range - begin) / (last - begin),
      y: (/** @type {number} */ value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * part(value),
    };
  }

  draw() {
    const at = this.scale();
    const { width, left } = at;
    const shapes = [];
    at.ticks.forEach((tick, i) => shapes.push(
        svg("line", { class: "axis", x1: left, x2: width - RIGHT, y1: at.y(tick), y2: at.y(tick) }),
        svg("text", { x: left - 6, y: at.y(tick) + 4, "text-anchor": "end" }, at.texts[i])));
    const { first, step } = this.reduced;
    const [from, to] = [first + at.begin * step, first + at.last * step];
    if (this.ranges.length) {
      for (const token of ticksOf(from, to, width / 110).filter(Number.isInteger)) {
        shapes.push(svg("text", { x: at.x((token - first) / step), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" },
        String(token)));
      }
    }
    shapes.push(svg("text", { x: (left + width) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, this.xName));
    this.reduced.series.forEach((one, i) => shapes.push(...this.curve(one, this.reduced.points[i], at)));
    if (this.cursor >= 0) {
      const x = at.x(this.ranges[this.cursor]);
      shapes.push(svg("line", { class: "cursor", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM }));
    }
    this.chart.replaceChildren(svg("svg", { class: "chart", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`,
        "aria-hidden": "true" }, ...shapes));
  }

  /** @param {Series} one @param {Map<number, Point>} points @param {ReturnType<Plot["scale"]>} at */
  curve(one, points, at) {
    const shapes = [];
    const mine = this.ranges.filter((range) => points.has(range));
    let line = "";
    let band = "";
    /** @type {number[]} */
    let run = [];
    const endRun = () => {
      if (run.length === 0) return;
      line += run.map((range, i) => `${i ? "L" : "M"}${at.x(range).toFixed(1)} ` +
          at.y(/** @type {Point} */ (points.get(range)).mean).toFixed(1)).join("");
      // A single point is a line of the length of its cap.
      if (run.length === 1) line += "h0";
      if (this.reduced.step > 1) {
        const edge = (/** @type {number} */ range, /** @type {"low" | "high"} */ side) =>
            `${at.x(range).toFixed(1)} ${at.y(/** @type {Point} */ (points.get(range))[side]).toFixed(1)}`;
        band += `M${[...run.map((r) => edge(r, "high")), ...[...run].reverse().map((r) => edge(r, "low"))].join("L")}Z`;
      }
      run = [];
    };
    for (const range of mine) {
      const point = /** @type {Point} */ (points.get(range));
      if (point.count > 0) run.push(range); else endRun();
      const x = at.x(range);
      if (point.nan > 0) {
        const y = HEIGHT - BOTTOM - 8;
        shapes.push(svg("path", { class: `gap c${one.color}`, d: `M${x - 4} ${y}l8 8m0 -8l-8 8` }));
      }
      if (point.odd > 0) {
        shapes.push(svg("path", { class: `odd c${one.color}`, d: `M${x - 5} ${TOP + 8}L${x} ${TOP}L${x + 5} ${TOP + 8}Z` }));
      }
    }
    endRun();
    if (band) shapes.push(svg("path", { class: `band c${one.color}`, d: band }));
    shapes.push(svg("path", { class: `curve c${one.color} d${one.dash}`, d: line }));
    if (mine.length <= DOTS_MAX && this.reduced.step === 1) {
      for (const range of mine) {
        const point = /** @type {Point} */ (points.get(range));
        if (point.count > 0) {
          shapes.push(svg("circle", { class: `dot c${one.color}`, cx: at.x(range), cy: at.y(point.mean), r: 3 }));
        }
      }
    }
    return shapes;
  }

  /** @param {number} cursor */
  point(cursor) {
    if (this.ranges.length === 0) return;
    this.cursor = Math.min(Math.max(cursor, 0), this.ranges.length - 1);
    const range = this.ranges[this.cursor];
    const { series, points } = this.reduced;
    this.tip.textContent = `${this.xName} ${tokensText(this.reduced, range)}: ` +
        series.map(({ name }, i) => `${name} ${pointText(points[i].get(range))}`).join("; ");
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9 }[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.point(this.cursor < 0 && step === -1 ? this.ranges.length - 1 : this.cursor + step);
  }

  /** @param {any} event */
  onPoint(event) {
    if (this.ranges.length === 0) return;
    const at = this.scale();
    const x = event.clientX - this.chart.getBoundingClientRect().left;
    let best = 0;
    this.ranges.forEach((range, i) => {
      if (Math.abs(at.x(range) - x) < Math.abs(at.x(this.ranges[best]) - x)) best = i;
    });
    if (best !== this.cursor) this.point(best);
  }

  fillTable() {
    const place = /** @type {Element} */ (this.table.lastElementChild);
    if (!(/** @type {HTMLDetailsElement} */ (this.table)).open) return place.replaceChildren();
    const { series, points } = this.reduced;
    place.replaceChildren(h("div", { class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Values of the curves" },
      h("table", {},
        h("thead", {}, h("tr", {}, ...[this.xName, ...series.map(({ name }) => name)].map((text) =>
            h("th", { scope: "col", class: "n" }, text)))),
        h("tbody", {}, ...this.ranges.map((range) => h("tr", {},
            h("th", { scope: "row", class: "n" }, tokensText(this.reduced, range)),
            ...points.map((one) => h("td", { class: "n" }, pointText(one.get(range))))))))));
  }
}
