// SPDX-License-Identifier: Apache-2.0
// One row, beside the table.
import { dim, h, putText } from "./dom.js";
import { metricTable, rowFacts, tensorText } from "./facts.js";
import { histogramsOf } from "./frozen.js";
import { histogramView } from "./histogram.js";

export class Detail {
  /** @param {() => void} onClose */
  constructor(onClose) {
    this.title = h("h2", { id: "title" });
    this.content = h("div");
    this.element = h("section", { class: "detail", "aria-labelledby": "title", hidden: true },
      h("button", { type: "button", "aria-label": "close", onclick: onClose }, "\u00d7"), this.title, this.content);
  }

  /** @param {import("./frozen.js").FrozenRow} row */
  show(row) {
    this.element.hidden = false;
    this.title.textContent = `row ${row.row}: ${tensorText(row)}`;
    const { sides, note } = histogramsOf(row.row);
    const histogram = histogramView(sides);
    this.content.replaceChildren(putText(h("p", { class: "reason" }), row.reason), rowFacts(row), metricTable(row),
        histogram || "", note && dim(`${histogram ? "Not drawn" : "No histogram"}: ${note}`));
  }
}
