// SPDX-License-Identifier: Apache-2.0
// Which rows are shown: a search, and verdicts.
import { h } from "./dom.js";
import { countText } from "./format.js";

export const VERDICTS = ["fail", "unmatched", "skipped", "pass"];

const SEARCH_DELAY_MS = 250;

export class Filters {
  /**
   * @param {string[]} verdicts
   * @param {string} find
   * @param {string} hint What can be searched for.
   * @param {() => void} onChange
   */
  constructor(verdicts, find, hint, onChange) {
    this.onChange = onChange;
    this.boxes = VERDICTS.map((verdict) => /** @type {HTMLInputElement} */ (h("input", {
      type: "checkbox", value: verdict, checked: verdicts.includes(verdict), onchange: () => this.change(),
    })));
    this.find = /** @type {HTMLInputElement} */ (h("input", {
      type: "search", placeholder: hint, "aria-label": "Search", value: find,
      oninput: () => {
        clearTimeout(this.timer);
        this.timer = setTimeout(() => this.change(), SEARCH_DELAY_MS);
      },
      // Enter does not wait.
      onchange: () => this.timer && this.change(),
    }));
    this.timer = 0;
    this.counts = VERDICTS.map(() => h("span", { class: "dim" }));
    this.element = h("div", { class: "bar" }, this.find,
      ...VERDICTS.map((verdict, i) => h("label", {}, this.boxes[i], " ",
          h("span", { class: verdict === "fail" && "bad" }, verdict), " ", this.counts[i])));
  }

  /** The verdicts that are chosen. */
  verdicts() { return this.boxes.filter((box) => box.checked).map((box) => box.value); }

  /** Shows all rows again, without a call of `onChange`. */
  clear() {
    this.stop();
    for (const box of this.boxes) box.checked = true;
    this.find.value = "";
  }

  /** @param {number[]} counts Rows by verdict, in the order of VERDICTS. */
  setCounts(counts) {
    this.counts.forEach((element, i) => { element.textContent = countText(counts[i]); });
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = 0;
  }

  change() {
    this.stop();
    this.onChange();
  }
}
