// SPDX-License-Identifier: Apache-2.0
// The distributions of both sides of a row, over the same bins.
import { ticksOf } from "./axis.js";
import { h, svg } from "./dom.js";
import { countText, numberText } from "./format.js";

/**
 * The elements of one tensor: those in the bins from `low` to `high`, and the
 * others.
 * @typedef {{name: string, low: number, high: number, counts: number[],
 *     below: number, above: number, nan: number}} Side
 */

const CHART_WIDTH = 456;
const CHART_HEIGHT = 204;
const BINS = { left: 48, right: 450, top: 10, bottom: 180 };

/** @param {Side} side @param {number} i */
const edge = ({ low, high, counts: { length } }, i) =>
    // Halves, since the difference of two numbers may be too large for a number.
    i === 0 ? low : i === length ? high : low * (1 - i / length) + high * (i / length);

// All elements have the same value.
const isPoint = (/** @type {Side} */ side) => side.low === side.high;

/** @param {Side} side */
const binCount = (side) => isPoint(side) ? 1 : side.counts.length;

/** @param {Side} side */
const total = (side) => side.counts.reduce((a, b) => a + b, 0);

/** @param {Side} side @param {number} i */
const spanText = (side, i) => isPoint(side) ? `at ${numberText(side.low)}`
    : `from ${numberText(edge(side, i))} to ${numberText(edge(side, i + 1))}`;

/** @param {Side} side */
function describe(side) {
  const count = total(side);
  const most = Math.max(...side.counts);
  return `${side.name}: ${countText(count)} elements in ${isPoint(side) ? "one bin" : `${side.counts.length} bins`}` +
      (count ? `, most of them, ${countText(most)}, ${spanText(side, side.counts.indexOf(most))}` : "") +
      (side.below + side.above + side.nan ? `; ${side.nan} NaN, ${side.below} below, ${side.above} above` : "");
}

/** @param {number} top @param {boolean} isLog */
function countTicks(top, isLog) {
  if (!isLog) return ticksOf(0, top, 5.5).filter(Number.isInteger);
  const tens = Math.floor(Math.log10(top));
  const powers = Array.from({ length: tens + 1 }, (_, i) => i);
  return [0, ...powers.filter((i) => i % Math.ceil((tens + 1) / 5) === 0).map((i) => 10 ** i)];
}

/** @param {Side[]} sides @param {boolean} isLog @param {Element} over Gets the counts at the pointer. */
function chart(sides, isLog, over) {
  const [first] = sides;
  const { left, right, top, bottom } = BINS;
  const bins = binCount(first);
  const largest = Math.max(1, ...sides.flatMap((side) => side.counts));
  const part = (/** @type {number} */ count) => isLog ? Math.log1p(count) / Math.log1p(largest) : count / largest;
  const x = (/** @type {number} */ i) => left + (right - left) * (isPoint(first) ? 0.4 + 0.2 * i : i / bins);
  const y = (/** @type {number} */ count) => (bottom - (bottom - top) * part(count)).toFixed(1);
  const shapes = [];
  for (const count of countTicks(largest, isLog)) {
    shapes.push(svg("line", { class: "axis", x1: left, x2: right, y1: y(count), y2: y(count) }),
        svg("text", { x: left - 4, y: Number(y(count)) + 4, "text-anchor": "end" }, countText(count)));
  }
  for (const value of isPoint(first) ? [first.low] : ticksOf(first.low, first.high, 5.5)) {
    const at = isPoint(first) ? 0.5 : (value / 2 - first.low / 2) / (first.high / 2 - first.low / 2);
    shapes.push(svg("text", { x: (left + (right - left) * at).toFixed(1), y: bottom + 16,
        "text-anchor": at < 0.04 ? "start" : at > 0.96 ? "end" : "middle" }, numberText(value)));
  }
  const under = svg("rect", { class: "under", y: top, width: 0, height: bottom - top });
  shapes.push(under);
  for (const side of sides) {
    let path = `M${x(0).toFixed(1)} ${bottom}`;
    for (let i = 0; i < bins; ++i) path += `V${y(side.counts[i])}H${x(i + 1).toFixed(1)}`;
    shapes.push(svg("path", { class: side.name, d: `${path}V${bottom}` }));
  }
  const leave = () => {
    under.setAttribute("width", "0");
    over.textContent = "";
  };
  const element = svg("svg", {
    class: "chart", viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, role: "img",
    "aria-label": `${sides.map(describe).join(". ")}.`, onpointerleave: leave,
    onpointermove: (event) => {
      const bounds = element.getBoundingClientRect();
      const at = (event.clientX - bounds.left) * CHART_WIDTH / bounds.width;
      const i = Math.floor((at - x(0)) * bins / (x(bins) - x(0)));
      if (i < 0 || i >= bins) return leave();
      under.setAttribute("x", x(i).toFixed(1));
      under.setAttribute("width", (x(i + 1) - x(i)).toFixed(1));
      over.textContent = `${spanText(first, i)}: ${sides.map((side) => `${side.name} ${countText(side.counts[i])}`).join(", ")}`;
    },
  }, ...shapes);
  return element;
}

/** @param {string[]} heads @param {(string | number)[][]} lines The first cell is a heading. */
const table = (heads, lines) => h("table", { class: "small" },
    h("thead", {}, h("tr", {}, ...heads.map((text) => text ? h("th", { scope: "col", class: "n" }, text) : h("td")))),
    h("tbody", {}, ...lines.map(([head, ...cells]) => h("tr", {}, h("th", { scope: "row" }, head),
        ...cells.map((text) => h("td", { class: "n" }, text))))));

/** @param {(Side | null)[]} both @returns {HTMLElement | null} Null if no side has a distribution. */
export function histogramView(both) {
  const sides = /** @type {Side[]} */ (both.filter((side) => side !== null));
  if (sides.length === 0) return null;
  const [first] = sides;
  const place = h("div");
  const over = h("div", { class: "over dim" });
  const draw = (/** @type {boolean} */ isLog) => place.replaceChildren(chart(sides, isLog, over));
  draw(false);
  return h("figure", { class: "histogram" },
    h("div", { class: "legend" },
      ...sides.map((side) => h("span", {}, h("i", { class: side.name }), side.name)),
      h("label", {}, h("input", { type: "checkbox", onchange: (event) => draw(event.target.checked) }), " log counts")),
    place, over,
    table(["", "in the bins", "NaN", "below", "above"],
        sides.map((side) => [side.name, ...[total(side), side.nan, side.below, side.above].map(countText)])),
    h("details", {}, h("summary", {}, "Elements in each bin"),
      table(["from", "to", ...sides.map(({ name }) => name)], Array.from({ length: binCount(first) }, (_, i) =>
          [numberText(edge(first, i)), numberText(edge(first, i + 1)), ...sides.map((side) => countText(side.counts[i]))]))));
}
