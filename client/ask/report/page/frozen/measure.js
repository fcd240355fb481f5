// SPDX-License-Identifier: Apache-2.0
// The number of a row that both plots show: its share of the bound, or a metric.
import { toNumber } from "./format.js";
import { DATA, ROWS } from "./frozen.js";
import { Scale } from "./scale.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */

export class Measure extends Scale {
  /** @param {number} metric Its position; -1 is the share of the bound that decided. */
  constructor(metric) {
    super(metric < 0 ? null : { name: DATA.metrics[metric], isHigherBetter: DATA.higher[metric], unit: DATA.units[metric] });
    this.metric = metric;
    this.errors = new Map(ROWS.map((row) => [row, this.errorOf(this.valueOf(row))]));
    this.span(this.errors.values());
  }

  /** @param {FrozenRow} row */
  rawOf(row) { return this.metric < 0 ? row.share : row.metric(this.metric); }

  /** @param {FrozenRow} row */
  valueOf(row) { return toNumber(this.rawOf(row)); }

  /** @param {FrozenRow} row @returns {number} */
  error(row) { return this.errors.get(row) ?? NaN; }

  /**
   * Whether a side, or the metric itself, is not finite.
   * @param {FrozenRow} row
   */
  isOdd(row) {
    return row.non_finite > 0 || (this.metric >= 0 && this.rawOf(row) !== null && !Number.isFinite(this.valueOf(row)));
  }

  /** @param {FrozenRow} row */
  level(row) {
    const { verdict } = row;
    return this.levelOf({ fails: verdict === "fail", passes: verdict === "pass", isUnmatched: verdict === "unmatched",
      share: this.error(row) });
  }

  /** The bounds of the policy, as errors. */
  limits() {
    if (this.metric < 0) return [1];
    return DATA.bounds.filter(([name]) => name === DATA.metrics[this.metric])
        .map(([, bound]) => this.errorOf(toNumber(bound)))
        .filter((bound) => Number.isFinite(bound) && (this.isLinear || bound > 0));
  }
}
