// SPDX-License-Identifier: Apache-2.0
// The heat map of a comparison of the daemon, which reduces the rows to groups.
import { ApiError, callPatiently, sleep } from "./api.js";
import { h } from "./dom.js";
import { countText, toNumber } from "./format.js";
import { layerOf } from "./grid.js";
import { HeatMap } from "./heat.js";
import { rowLink } from "./row.js";
import { Scale, scaleSelect } from "./scale.js";

const POLL_MS = 1000;

/** @typedef {import("./heat.js").Kind} Kind */

export class GroupMap extends HeatMap {
  /**
   * @param {string} comparison
   * @param {any} firstDivergence The row, or undefined.
   * @param {any[]} metrics Those of the daemon.
   * @param {string} metric The name of the one to color by; empty for the bound.
   * @param {(metric: string) => void} onMetric
   * @param {AbortSignal} signal
   */
  constructor(comparison, firstDivergence, metrics, metric, onMetric, signal) {
    super(firstDivergence, signal);
    this.comparison = comparison;
    this.generation = 0;
    const chosen = metrics.findIndex(({ name }) => name === metric);
    this.metric = chosen < 0 ? null : metrics[chosen];
    this.scale = new Scale(null);
    const select = scaleSelect(metrics.map(({ name }, i) => /** @type {[number, string]} */ ([i, name])), chosen, true, (at) => {
      this.metric = at < 0 ? null : metrics[at];
      onMetric(this.metric?.name ?? "");
      this.start(this.kind);
    });
    this.note.before(h("label", {}, "color by ", select));
  }

  /** @param {number} x @param {number} y */
  open(x, y) {
    const row = this.grid.rowAt(x, y);
    if (row >= 0) location.hash = rowLink(this.comparison, row);
  }

  controls() { return /** @type {HTMLElement[]} */ ([...this.element.querySelectorAll(".bar > label, .bar > button")]); }

  /** @param {number} x @param {number} y */
  valueText(x, y) { return this.scale.errorText(this.grid.errorAt(x, y)); }

  /** @param {any} part An answer of page.groups. */
  take(part) {
    const { scale } = this;
    for (const [op, rank, token, pass, fail, unmatched, , worst, row] of part.groups) {
      const error = scale.errorOf(toNumber(worst));
      const fails = fail > 0;
      const level = scale.levelOf({ fails, passes: pass > 0, isUnmatched: unmatched > 0, share: error });
      const name = part.ops[op];
      const [line, column] = this.kind === "op" ? [name, token] : [layerOf(name), rank];
      this.grid.put(line, column, level, row, fails && Number.isNaN(error) ? Infinity : error);
    }
    if (!scale.isShare()) this.grid.fit(scale);
    this.refresh();
  }

  /**
   * Shows the map, or why there is none: several daemons, or one that does not
   * summarize rows.
   * @param {Kind} kind
   */
  async start(kind) {
    const generation = ++this.generation;
    const { metric } = this;
    this.scale = new Scale(metric &&
        { name: metric.name, isHigherBetter: metric.direction === "HIGHER_IS_BETTER", unit: metric.unit });
    this.explain(this.scale);
    super.start(kind);
    try {
      await this.request(generation);
    } catch (error) {
      if (this.signal.aborted || generation !== this.generation) return;
      this.canvas.hidden = true;
      this.tip.hide();
      this.legend.replaceChildren();
      // It will not be there with other choices either.
      const isNever = error instanceof ApiError && error.status === 501;
      for (const control of this.controls()) control.hidden = isNever;
      this.note.textContent = `No map: ${/** @type {Error} */ (error).message}`;
    }
  }

  /**
   * Requests the groups, and later those of new rows, until the comparison ends.
   * @param {number} generation
   */
  async request(generation) {
    let next = 0;
    for (;;) {
      const part = await callPatiently("page.groups", {
        comparison: this.comparison, first_row: next, group_by: ["OP", this.kind === "op" ? "TOKEN" : "RANK"],
        value: this.metric?.name ?? "",
      }, this.signal, (problem) => {
        if (generation === this.generation) this.note.textContent = problem;
      });
      if (generation !== this.generation || this.signal.aborted) return;
      this.canvas.hidden = false;
      if (part.groups.length) this.take(part);
      next = part.next_row;
      const isComplete = next >= part.row_count;
      this.note.textContent = isComplete ? (this.grid.isCut ? "not all fit" : "")
          : `${countText(next)} of ${countText(part.row_count)} rows`;
      if (isComplete && part.has_ended) return;
      if (isComplete) await sleep(POLL_MS);
    }
  }
}
