// SPDX-License-Identifier: Apache-2.0
// The heat map of a comparison of the daemon, which reduces the rows to groups.
import { callPatiently, sleep } from "./api.js";
import { countText, toNumber } from "./format.js";
import { layerOf, levelOf } from "./grid.js";
import { HeatMap } from "./heat.js";
import { rowLink } from "./row.js";

const POLL_MS = 1000;

/** @typedef {import("./heat.js").Kind} Kind */

export class GroupMap extends HeatMap {
  /**
   * @param {string} comparison
   * @param {any} firstDivergence The row, or undefined.
   * @param {AbortSignal} signal
   */
  constructor(comparison, firstDivergence, signal) {
    super(firstDivergence, signal);
    this.comparison = comparison;
    this.generation = 0;
  }

  /** @param {number} x @param {number} y */
  open(x, y) {
    const row = this.grid.rowAt(x, y);
    if (row >= 0) location.hash = rowLink(this.comparison, row);
  }

  /** @param {any} part An answer of page.groups. */
  take(part) {
    for (const [op, rank, token, pass, fail, unmatched, , worst, row] of part.groups) {
      const share = toNumber(worst);
      const level = levelOf({ fails: fail > 0, passes: pass > 0, isUnmatched: unmatched > 0, share });
      const name = part.ops[op];
      const [line, column] = this.kind === "op" ? [name, token] : [layerOf(name), rank];
      this.grid.put(line, column, level, row, Number.isNaN(share) && fail > 0 ? Infinity : share || 0);
    }
    this.refresh();
  }

  /**
   * Shows the map, or why there is none: several daemons, or one that does not
   * summarize rows.
   * @param {Kind} kind
   */
  async start(kind) {
    const generation = ++this.generation;
    super.start(kind);
    try {
      await this.request(generation);
    } catch (error) {
      if (this.signal.aborted || generation !== this.generation) return;
      this.canvas.hidden = true;
      this.tip.hide();
      this.legend.replaceChildren();
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
