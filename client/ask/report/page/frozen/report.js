// SPDX-License-Identifier: Apache-2.0
// The page of a report.
import { DepthPlot } from "./depth.js";
import { Detail } from "./detail.js";
import { h } from "./dom.js";
import { Filters, VERDICTS } from "./filters.js";
import { DATA, MEASURED, ROWS, ROW_OF } from "./frozen.js";
import { headView } from "./head.js";
import { onKeys } from "./keys.js";
import { FrozenMap } from "./map.js";
import { Measure } from "./measure.js";
import { FrozenTree } from "./modules.js";
import { scaleSelect } from "./scale.js";
import { searchOf } from "./search.js";
import { RowView, columnsWith, metricColumn } from "./table.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */

// Reasons that are listed.
const REASONS_MAX = 8;

/**
 * Rows that fail come first, and of those, modules whose parts made the error last.
 * @param {FrozenRow[]} rows
 */
function worstFirst(rows) {
  const order = ["fail", "inside", ...VERDICTS.slice(1)];
  /** @type {FrozenRow[][]} */
  const groups = order.map(() => []);
  for (const row of rows) {
    const { verdict } = row;
    groups[order.indexOf(verdict === "fail" && row.origin === "inside" ? "inside" : verdict)].push(row);
  }
  return groups.flat();
}

class Report {
  constructor() {
    const { signal } = new AbortController();
    /** @type {{label: string, has: (row: FrozenRow) => boolean} | null} Rows that a click has chosen. */
    this.pick = null;
    this.main = /** @type {HTMLElement} */ (document.querySelector("main"));
    this.table = new RowView(this.columns(), signal, (row, isStep) => this.open(row, isStep), () => this.filter());
    this.table.opensBeside = true;
    this.filters = new Filters(VERDICTS, "", "op, reason, rank:0, token:3", () => this.filter());
    this.filters.setCounts(VERDICTS.map((verdict) => ROWS.filter((row) => row.verdict === verdict).length));
    this.count = h("span", { class: "count", role: "status" });
    this.picked = h("span", { class: "picked" });
    this.filters.element.append(h("button", { type: "button", class: "all", onclick: () => this.reset() }, "all rows"),
        this.count, this.picked);
    this.metric = this.measures();
    const measure = new Measure(Number(this.metric.value));
    this.map = new FrozenMap(signal, measure, (label, has) => this.choose({ label, has }));
    this.depth = new DepthPlot(signal, measure, (row) => this.jump(row));
    this.tree = new FrozenTree((row) => this.jump(row), (label, has) => this.choose({ label, has }, true));
    this.detail = new Detail(() => this.close());
    this.main.append(
      headView({ ...DATA.comparison, findings: DATA.comparison.facts }, (row) => this.linkTo(row), true),
      h("div", { class: "bar" }, h("label", {}, "color by ", this.metric)),
      h("div", { class: "plots" }, this.map.element, this.depth.element),
      h("h2", {}, "Modules"), h("div", { class: "bar" }, this.tree.filter),
      h("div", { class: "scroll modules" }, this.tree.element),
      h("h2", {}, "Rows"), this.filters.element,
      h("div", { class: "split" }, this.table.scroll, this.detail.element),
      h("p", { class: "dim keys" }, "Keys: n next row that fails, p the one before, j and k next and previous row, " +
        "/ search, Esc close; in the table up, down, Enter."));
    this.addReasons();
    this.filter();
    this.paint(measure);
    onKeys({
      "/": () => this.filters.find.focus(),
      n: () => this.table.nextFailing(1),
      p: () => this.table.nextFailing(-1),
      j: () => this.step(1),
      k: () => this.step(-1),
      Escape: () => this.close(),
    }, signal);
  }

  columns() {
    const texts = DATA.custom.map((name, i) => /** @type {import("./table.js").Column} */ (
        [`${name}:text`, "", (/** @type {FrozenRow} */ row) => row.note(i)]))
        .filter(([, , textOf]) => ROWS.some((row) => textOf(row)));
    return columnsWith([...MEASURED.map((i) => metricColumn(DATA.metrics[i], (row) => row.metric(i))), ...texts]);
  }

  /**
   * What the plots show.
   * @returns {HTMLSelectElement}
   */
  measures() {
    const decides = ROWS.some((row) => row.share !== null);
    const first = decides ? -1 : MEASURED.find((i) => DATA.metrics[i] === "nl2") ?? MEASURED[0] ?? -1;
    return scaleSelect(MEASURED.map((i) => /** @type {[number, string]} */ ([i, DATA.metrics[i]])), first, decides || first < 0,
        (chosen) => this.paint(new Measure(chosen)));
  }

  /** @param {Measure} measure */
  paint(measure) {
    this.map.color(measure);
    this.depth.show(measure);
  }

  /** @param {number} number */
  linkTo(number) {
    const row = ROW_OF.get(number);
    return row ? h("button", { type: "button", class: "go", onclick: () => this.jump(row) }) : null;
  }

  /** Lists what was not compared, by reasons that differ only in their numbers. */
  addReasons() {
    /** @type {Map<string, FrozenRow[]>} */
    const groups = new Map();
    for (const row of ROWS) {
      if (row.verdict !== "unmatched" && row.verdict !== "skipped") continue;
      const key = `${row.verdict} ${row.alike}`;
      const group = groups.get(key);
      if (group) group.push(row); else groups.set(key, [row]);
    }
    if (groups.size === 0) return;
    const all = [...groups.values()].sort((a, b) => b.length - a.length);
    const links = all.slice(0, REASONS_MAX).map((group) => {
      const [first] = group;
      const isSame = group.every(({ reason }) => reason === first.reason);
      const label = `${group.length} ${first.verdict}: ${(isSame ? first.reason : first.alike) || "no reason"}`;
      const members = new Set(group);
      const has = (/** @type {FrozenRow} */ row) => members.has(row);
      return h("button", { type: "button", class: "go why", onclick: () => this.choose({ label, has }, true) }, label);
    });
    /** @type {Element} */ (this.main.querySelector(".facts")).append(h("dt", {}, "why not"),
        h("dd", {}, ...links, all.length > REASONS_MAX && `and ${all.length - REASONS_MAX} other reasons`));
  }

  filter() {
    const verdicts = new Set(this.filters.verdicts());
    const matches = searchOf(this.filters.find.value);
    const rows = ROWS.filter((row) => verdicts.has(row.verdict) && (!this.pick || this.pick.has(row)) && matches(row));
    this.table.rows = this.table.inOrder(this.table.sorted ? rows : worstFirst(rows));
    this.count.textContent = `${rows.length} of ${ROWS.length} rows`;
    this.picked.textContent = this.pick ? this.pick.label : "";
    this.table.scroll.scrollTop = 0;
    this.table.draw();
  }

  /**
   * Shows rows that are chosen by a click.
   * @param {{label: string, has: (row: FrozenRow) => boolean} | null} pick
   * @param {boolean} [isAll] Whether other filters end.
   */
  choose(pick, isAll) {
    this.pick = pick;
    if (isAll) this.filters.clear();
    this.filter();
    if (isAll) this.table.scroll.scrollIntoView({ block: "nearest" });
  }

  /** Shows all rows in their order. */
  reset() {
    this.pick = null;
    this.filters.clear();
    this.table.sortBy(null);
  }

  /** @param {FrozenRow} row @param {boolean} isStep Whether the table remains in view. */
  open(row, isStep) {
    this.table.current = row;
    this.detail.show(row);
    this.table.draw();
    if (!isStep) this.detail.element.scrollIntoView({ block: "nearest" });
  }

  close() {
    if (!this.table.current) return;
    this.table.current = null;
    this.detail.element.hidden = true;
    this.table.draw();
  }

  /**
   * Opens a row, whatever is chosen.
   * @param {FrozenRow} row
   */
  jump(row) {
    if (!this.table.rows.includes(row)) this.reset();
    this.table.goTo(this.table.rows.indexOf(row));
  }

  /** @param {1 | -1} by */
  step(by) {
    const next = this.table.rows[this.table.rows.indexOf(this.table.current) + by];
    if (this.table.current && next) this.jump(next);
  }
}

export const REPORT = new Report();
