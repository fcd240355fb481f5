// SPDX-License-Identifier: Apache-2.0
// The table of the rows of a comparison, which are requested page by page as the
// user scrolls.
import { call } from "./api.js";
import { h } from "./dom.js";
import { numberText } from "./format.js";
import { rowLink } from "./row.js";
import { RowView, columnsWith, metricColumn } from "./table.js";

const PAGE_ROWS = 200;
// Rows that one table holds: some 100 MiB. Filters find what is beyond.
const ROWS_MAX = 50_000;

/**
 * @typedef {object} Selection What the table shows, as in
 *     ListComparisonRowsRequest.
 * @property {string[]} verdicts
 * @property {string[]} op_patterns
 * @property {string} [node] One of several daemons; all if it is empty.
 */

/**
 * A metric of the daemon, or one that was added to the row later, which may be
 * a text.
 * @param {string} name
 * @returns {import("./table.js").Column}
 */
const columnOf = (name) => {
  const [, kind, valueOf] = metricColumn(name, (row) => row.metrics[name] ?? row.custom_metrics[name]?.[0]);
  return [name, kind, valueOf, (value, row) => (value ?? null) === null && row.custom_metrics[name]?.[1] || numberText(value)];
};

/** @type {import("./table.js").Column} */
const NODE = ["node", "", (row) => row.node];

export class RowTable extends RowView {
  /**
   * @param {string} comparison
   * @param {string[]} metrics Metrics to show, if rows have them.
   * @param {boolean} hasNodes Whether the rows are from several daemons. They
   *     have no page, since each daemon has its own numbers.
   * @param {AbortSignal} signal
   */
  constructor(comparison, metrics, hasNodes, signal) {
    super([...(hasNodes ? [NODE] : []), ...columnsWith(metrics.map(columnOf))], signal,
        hasNodes ? null : (row) => { location.hash = rowLink(comparison, row.row); }, null);
    this.comparison = comparison;
    this.signal = signal;
    /** @type {any[]} */
    this.rows = [];
    this.token = "";
    this.isDone = false;
    // Whether the comparison has produced rows that the table should have.
    this.misses = false;
    this.isReloading = false;
    this.generation = 0;
    // Why the last page was not loaded; empty if it was.
    this.problem = "";
    /** @type {Promise<void> | null} */
    this.loading = null;
    /** @type {Selection} */
    this.selection = { verdicts: [], op_patterns: [] };
    this.count = h("span", { role: "status", class: "dim" });
  }

  /**
   * Shows other rows. An error is shown in place of their number.
   * @param {Selection} selection
   */
  async select(selection) {
    this.selection = selection;
    this.generation += 1;
    this.rows = [];
    this.token = "";
    this.isDone = false;
    this.misses = this.isReloading = false;
    this.problem = "";
    this.loading = null;
    this.scroll.scrollTop = 0;
    await this.load();
  }

  /**
   * Whether the comparison has produced rows that the table lacks although they
   * are selected.
   */
  isBehind() { return this.misses; }

  /** Requests the rows again, as many as there are, and keeps the position. */
  async reload() {
    const generation = ++this.generation;
    const wasDone = this.isDone;
    const wanted = this.rows.length + 1;
    this.loading = null;
    this.misses = false;
    // Until the rows are replaced, those that are produced count as missed, and
    // no further page is requested.
    this.isDone = this.isReloading = true;
    /** @type {any[]} */
    const rows = [];
    let token = "";
    try {
      do {
        const page = await this.request(token);
        if (generation !== this.generation) return;
        rows.push(...page.rows);
        token = page.next_page_token;
      } while (token !== "" && rows.length < wanted);
      [this.rows, this.token, this.isDone, this.problem] = [rows, token, token === "", ""];
      this.draw();
    } catch (error) {
      if (generation !== this.generation || this.signal.aborted) return;
      this.isDone = wasDone;
      this.misses = true;
      this.problem = /** @type {Error} */ (error).message;
      this.showCount();
    } finally {
      if (generation === this.generation) this.isReloading = false;
    }
  }

  /**
   * Adds rows that were just produced.
   * @param {any[]} rows
   * @param {boolean} [isPartial] Whether further rows were produced that are
   *     not among them.
   */
  add(rows, isPartial) {
    const { verdicts, op_patterns: patterns } = this.selection;
    const wantsOthers = isPartial && (verdicts.length === 0 || verdicts.includes("PASS"));
    const found = rows.filter((row) => verdicts.length === 0 || verdicts.includes(row.verdict.toUpperCase()));
    // Pages under way may lack them, and only the daemon matches patterns.
    if (wantsOthers || (found.length > 0 && (patterns.length > 0 || !this.isDone || this.misses || this.isReloading))) {
      this.misses = true;
      this.showCount();
      return;
    }
    if (found.length === 0) return;
    const last = this.rows.length ? this.rows[this.rows.length - 1].row : -1;
    this.rows.push(...found.filter((row) => row.row > last)
        .slice(0, Math.max(0, ROWS_MAX - this.rows.length)));
    this.draw();
  }

  load() {
    if (this.isDone || this.rows.length >= ROWS_MAX) return Promise.resolve();
    const generation = this.generation;
    this.loading ??= this.loadPage(generation).catch((error) => {
      if (generation !== this.generation || this.signal.aborted) return;
      this.problem = error.message;
      this.showCount();
    }).finally(() => {
      // Another selection may already load its own page.
      if (generation === this.generation) this.loading = null;
    });
    return this.loading;
  }

  /** @param {string} token @returns {Promise<any>} */
  async request(token) {
    const page = await call("page.rows", {
      comparison: this.comparison, page_size: PAGE_ROWS, page_token: token, ...this.selection,
    }, this.signal);
    page.row_nodes?.forEach((/** @type {string} */ node, /** @type {number} */ i) => { page.rows[i].node = node; });
    return page;
  }

  /** @param {number} generation */
  async loadPage(generation) {
    // A page may be empty although more follow.
    const wanted = this.rows.length + PAGE_ROWS;
    while (!this.isDone && this.rows.length < wanted) {
      const page = await this.request(this.token);
      if (generation !== this.generation) return;
      this.problem = "";
      this.rows.push(...page.rows);
      this.token = page.next_page_token;
      this.isDone = this.token === "";
      this.draw();
    }
  }

  showCount() {
    const more = this.rows.length >= ROWS_MAX ? ", and more: use filters"
        : !this.isDone || this.misses ? " so far" : "";
    this.count.textContent = `${this.rows.length} row${this.rows.length === 1 ? "" : "s"}${more}` +
        (this.problem ? `. ${this.problem}` : "");
    this.count.className = this.problem ? "problem" : "dim";
  }

  draw() {
    super.draw();
    this.showCount();
    const end = (this.scroll.scrollTop + this.scroll.clientHeight) / this.height();
    if (end + PAGE_ROWS / 2 > this.rows.length) this.load();
  }
}
