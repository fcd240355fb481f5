// SPDX-License-Identifier: Apache-2.0
// The number of a row that both plots show: its share of the bound, or a metric.
import { toNumber } from "./format.js";
import { DATA, ROWS } from "./frozen.js";
import { NONE, levelOf } from "./grid.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */

export class Measure {
  /** @param {number} metric Its position; -1 is the share of the bound that decided. */
  constructor(metric) {
    this.metric = metric;
    this.isHigherBetter = metric >= 0 && DATA.higher[metric];
    // The larger the worse.
    this.errors = new Map(ROWS.map((row) => [row, this.errorOf(this.valueOf(row))]));
    const [low, high] = this.range((error) => error !== 0);
    this.isLinear = !(high > 0) || [...this.errors.values()].some((error) => error < 0);
    const [least, most] = this.isLinear ? this.range(() => true) : [low, high];
    this.low = least;
    this.high = most;
  }

  /** @param {(error: number) => boolean} counts */
  range(counts) {
    let [low, high] = [Infinity, -Infinity];
    for (const error of this.errors.values()) {
      if (!Number.isFinite(error) || !counts(error)) continue;
      low = Math.min(low, error);
      high = Math.max(high, error);
    }
    return [low, high];
  }

  /** A metric such as cosine, which is 1 if both sides are equal. */
  isToOne() { return this.isHigherBetter && !DATA.units[this.metric]; }

  /** @param {FrozenRow} row */
  rawOf(row) { return this.metric < 0 ? row.share : row.metric(this.metric); }

  /** @param {FrozenRow} row */
  valueOf(row) { return toNumber(this.rawOf(row)); }

  /** @param {number} value */
  errorOf(value) {
    if (!this.isHigherBetter) return value;
    return this.isToOne() ? Math.max(1 - value, 0) : -value;
  }

  /** @param {FrozenRow} row @returns {number} */
  error(row) { return this.errors.get(row) ?? NaN; }

  /**
   * Whether a side, or the metric itself, is not finite.
   * @param {FrozenRow} row
   */
  isOdd(row) {
    return row.non_finite > 0 || (this.metric >= 0 && this.rawOf(row) !== null && !Number.isFinite(this.valueOf(row)));
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
   * The color of a row: a row that fails has that of a failure, whatever its value.
   * @param {FrozenRow} row
   */
  level(row) {
    const { verdict } = row;
    const fails = verdict === "fail";
    const group = { fails, passes: verdict === "pass", isUnmatched: verdict === "unmatched", share: this.error(row) };
    if (this.metric < 0) return levelOf(group);
    const part = this.partOf(group.share);
    if (!Number.isNaN(part)) return levelOf(group, part);
    // A row that passes without this metric has no color.
    return group.passes ? NONE : levelOf(group, 1);
  }

  label() {
    if (this.metric < 0) return "error, in multiples of its bound";
    const name = DATA.metrics[this.metric];
    const unit = DATA.units[this.metric];
    return this.isToOne() ? `1 \u2212 ${name}` : name + (unit ? `, ${unit}` : "");
  }

  /** The bounds of the policy, as errors. */
  limits() {
    if (this.metric < 0) return [1];
    return DATA.bounds.filter(([name]) => name === DATA.metrics[this.metric])
        .map(([, bound]) => this.errorOf(toNumber(bound)))
        .filter((bound) => Number.isFinite(bound) && (this.isLinear || bound > 0));
  }
}
