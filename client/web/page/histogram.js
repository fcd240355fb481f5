// SPDX-License-Identifier: Apache-2.0
// The distributions of both sides of a row, over the same bins.
import { h, svg } from "./dom.js";
import { countText, numberText, toNumber } from "./format.js";

/**
 * @typedef {{low: any, high: any, counts: any[], below_count: any,
 *     above_count: any, nan_count: any}} Histogram
 * @typedef {{name: string, low: number, high: number, counts: number[],
 *     below: number, above: number, nan: number}} Side
 */

const WIDTH = 480;
const HEIGHT = 200;
const LEFT = 48;
const RIGHT = 474;
const TOP = 8;
const BOTTOM = 176;

/** @param {string} name @param {Histogram | null} histogram @returns {Side | null} */
function sideOf(name, histogram) {
  if (!histogram) return null;
  return {
    name,
    low: toNumber(histogram.low),
    high: toNumber(histogram.high),
    counts: histogram.counts.map(toNumber),
    below: toNumber(histogram.below_count),
    above: toNumber(histogram.above_count),
    nan: toNumber(histogram.nan_count),
  };
}

/** Halves, since the difference of two numbers may be too large for a number. */
const edge = (/** @type {Side} */ side, /** @type {number} */ i) => {
  const n = side.counts.length;
  return i === n ? side.high : side.low * (1 - i / n) + side.high * (i / n);
};

/** @param {Side} side */
const isPoint = (side) => side.low === side.high;

/** @param {Side[]} sides @param {boolean} isLog */
function chart(sides, isLog) {
  const top = Math.max(1, ...sides.flatMap((side) => side.counts));
  const part = (/** @type {number} */ count) =>
      isLog ? Math.log1p(count) / Math.log1p(top) : count / top;
  const bins = isPoint(sides[0]) ? 1 : sides[0].counts.length;
  const x = (/** @type {number} */ i) => LEFT + (RIGHT - LEFT) * i / bins;
  const y = (/** @type {number} */ count) => BOTTOM - (BOTTOM - TOP) * part(count);
  const shapes = [];
  for (const count of isLog ? [0, Math.round(Math.expm1(Math.log1p(top) / 2)), top]
        : [0, Math.round(top / 2), top]) {
    shapes.push(svg("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: y(count), y2: y(count) }),
        svg("text", { x: LEFT - 4, y: y(count) + 4, "text-anchor": "end" }, countText(count)));
  }
  for (const [i, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    const value = edge(sides[0], sides[0].counts.length * /** @type {number} */ (i));
    shapes.push(svg("text", { x: LEFT + (RIGHT - LEFT) * /** @type {number} */ (i), y: BOTTOM + 16,
        "text-anchor": anchor },
        numberText(Number(value.toPrecision(3)))));
  }
  for (const side of sides) {
    let path = `M${x(0)} ${BOTTOM}`;
    for (let i = 0; i < bins; ++i) path += `V${y(side.counts[i]).toFixed(1)}H${x(i + 1).toFixed(1)}`;
    shapes.push(svg("path", { class: side.name, d: `${path}V${BOTTOM}` }));
  }
  const text = sides.map((side) => `${side.name}: ${countText(
      side.counts.reduce((a, b) => a + b, 0))} elements from ${numberText(side.low)} to ${numberText(side.high)}`);
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
        "aria-label": text.join("; ") }, ...shapes);
}

/** @param {Side[]} sides */
function totals(sides) {
  const heads = ["in the bins", "NaN", "below", "above"];
  return h("table", { class: "small" },
    h("thead", {}, h("tr", {}, h("td"), ...heads.map((text) =>
        h("th", { scope: "col", class: "n" }, text)))),
    h("tbody", {}, ...sides.map((side) => h("tr", {}, h("th", { scope: "row" }, side.name),
        ...[side.counts.reduce((a, b) => a + b, 0), side.nan, side.below, side.above].map((count) =>
            h("td", { class: "n" }, countText(count)))))));
}

/** @param {Histogram | null} golden @param {Histogram | null} target */
export function histogramView(golden, target) {
  const sides = /** @type {Side[]} */ (
      [sideOf("golden", golden), sideOf("target", target)].filter((side) => side !== null));
  if (sides.length === 0) return null;
  const place = h("div");
  const draw = (/** @type {boolean} */ isLog) => place.replaceChildren(chart(sides, isLog));
  draw(false);
  return h("figure", {},
    h("div", { class: "legend" },
      ...sides.map((side) => h("span", {}, h("i", { class: side.name }), side.name)),
      h("label", {}, h("input", {
        type: "checkbox",
        onchange: (event) =>
            draw(event.target.checked),
      }), " log counts")),
    place, totals(sides));
}
