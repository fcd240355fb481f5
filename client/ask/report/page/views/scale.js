// SPDX-License-Identifier: Apache-2.0
// What colors stand for: the share of the bound, or a metric.
import { h } from "./dom.js";
import { numberText, shareText } from "./format.js";
import { NONE, levelOf } from "./grid.js";

/** @typedef {{name: string, isHigherBetter: boolean, unit: string}} Metric */

/** Maps values to errors, of which larger ones are worse, and errors to colors. */
export class Scale {
  /** @param {Metric | null} metric Null for the share of the bound that decided. */
  constructor(metric) {
    this.measured = metric;
    this.isLinear = false;
    this.low = Infinity;
    this.high = -Infinity;
  }

  isShare() { return this.measured === null; }

  /** A metric such as cosine, which is 1 if both sides are equal. */
  isToOne() { return this.measured !== null && this.measured.isHigherBetter && !this.measured.unit; }

  /** @param {number} value */
  errorOf(value) {
    if (!this.measured?.isHigherBetter) return value;
    return this.isToOne() ? Math.max(1 - value, 0) : -value;
  }

  /**
   * Sets the range of errors. It is logarithmic unless an error is negative.
   * @param {Iterable<number>} errors
   */
  span(errors) {
    let [low, high, least, most] = [Infinity, -Infinity, Infinity, -Infinity];
    let isNegative = false;
    for (const error of errors) {
      if (error < 0) isNegative = true;
      if (!Number.isFinite(error)) continue;
      if (error < low) low = error;
      if (error > high) high = error;
      if (error !== 0 && error < least) least = error;
      if (error !== 0 && error > most) most = error;
    }
    this.isLinear = isNegative || !(most > 0);
    [this.low, this.high] = this.isLinear ? [low, high] : [least, most];
  }

  /**
   * The place of an error in the range of all, from 0 to 1.
   * @param {number} error
   */
  partOf(error) {
    const { low, high } = this;
    if (Number.isNaN(error)) return NaN;
    if (!Number.isFinite(error)) return error < 0 ? 0 : 1;
    if (this.isLinear) return high > low ? (error - low) / (high - low) : 0;
    if (error <= 0) return 0;
    return high > low ? Math.log(error / low) / Math.log(high / low) : 1;
  }

  /**
   * The color of a row or of several: one that fails has that of a failure,
   * whatever its value.
   * @param {{fails: boolean, passes: boolean, isUnmatched: boolean, share: number}} group
   *     The share is the error.
   */
  levelOf(group) {
    if (this.isShare()) return levelOf(group);
    const part = this.partOf(group.share);
    if (!Number.isNaN(part)) return levelOf(group, part);
    // A row that passes without this metric has no color.
    return group.passes && !group.fails && !group.isUnmatched ? NONE : levelOf(group, 1);
  }

  label() {
    if (this.measured === null) return "error, in multiples of its bound";
    const { name, unit } = this.measured;
    return this.isToOne() ? `1 \u2212 ${name}` : name + (unit ? `, ${unit}` : "");
  }

  /** @param {number} error */
  errorText(error) {
    if (!Number.isFinite(error)) return "";
    const value = this.isToOne() ? 1 - error : this.measured?.isHigherBetter ? -error : error;
    return this.valueText(Number(value.toPrecision(6)));
  }

  /** @param {number | string | null | undefined} value */
  valueText(value) {
    return this.measured === null ? `${shareText(value)} of its bound` : `${this.measured.name} ${numberText(value)}`;
  }
}

/**
 * A control that selects what colors stand for.
 * @param {[number, string][]} metrics Positions and names.
 * @param {number} chosen The position of one, or -1 for the bound.
 * @param {boolean} hasShare Whether the bound can be chosen.
 * @param {(chosen: number) => void} onChange
 */
export function scaleSelect(metrics, chosen, hasShare, onChange) {
  const options = metrics.map(([value, name]) => h("option", { value, selected: value === chosen }, name));
  if (hasShare) options.unshift(h("option", { value: -1, selected: chosen < 0 }, "the bound that decided"));
  return /** @type {HTMLSelectElement} */ (h("select", {
    class: "metric", onchange: (event) => onChange(Number(event.target.value)),
  }, ...options));
}
