// SPDX-License-Identifier: Apache-2.0
// The modules of a report, whose rows are all known.
import { h } from "./dom.js";
import { toNumber } from "./format.js";
import { DATA, ROWS, ROW_OF } from "./frozen.js";
import { ModuleTree, addCounts, firstProblem, noRows } from "./tree.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */

export class FrozenTree extends ModuleTree {
  /**
   * @param {(row: FrozenRow) => void} onRow Shows a row.
   * @param {(label: string, has: (row: FrozenRow) => boolean) => void} onRows Shows the rows of a module.
   */
  constructor(onRow, onRows) {
    super(() => {});
    this.onRow = onRow;
    this.onRows = onRows;
    /** @type {Map<string, import("./tree.js").Counts>} */
    const ops = new Map();
    for (const row of ROWS) {
      let counts = ops.get(row.op);
      if (!counts) ops.set(row.op, counts = noRows());
      addCounts(counts, { ...noRows(), [row.verdict]: 1, worst: toNumber(row.share), row: row.row });
    }
    for (const [op, counts] of ops) this.root.add(op, counts);
    const first = DATA.comparison.first?.op ?? firstProblem(this.root);
    if (first !== undefined) this.reveal(first);
    this.draw();
  }

  /** @param {import("./tree.js").Module} node */
  linkOf(node) {
    const row = node.isLeaf() ? ROW_OF.get(node.counts.row) : undefined;
    const show = () => row ? this.onRow(row)
        : this.onRows(`only ${node.path}`, ({ op }) => node.has(op));
    return h("button", { type: "button", class: "go", onclick: show });
  }
}
