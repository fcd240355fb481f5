// SPDX-License-Identifier: Apache-2.0
// A table of rows, of which only the visible ones are elements. Rows are
// requested page by page as the user scrolls.
import { call } from "./api.js";
import { h } from "./dom.js";
import { numberText, shareText } from "./format.js";
import { rowLink, tensorText } from "./row.js";

const PAGE_ROWS = 200;
// Rows that one table holds: some 100 MiB. Filters find what is beyond.
const ROWS_MAX = 50_000;
const ROW_HEIGHT = 24;
const NARROW_ROW_HEIGHT = 48;
const SPARE_ROWS = 12;

/**
 * @typedef {object} Selection What the table shows, as in
 *     ListComparisonRowsRequest.
 * @property {string[]} verdicts
 * @property {string[]} op_patterns
 */

/** @typedef {[string, string, (row: any) => string]} Column Heading, class and text. */

/** @type {Column[]} */
const COLUMNS = [
  ["row", "n", (row) => String(row.row)],
  ["verdict", "word", (row) => row.verdict],
  ["op", "op", tensorText],
  ["of bound", "n", (row) => shareText(row.share)],
  ["reason", "reason", (row) => row.reason],
  ["token", "n", (row) => String(row.token)],
  ["rank", "n", (row) => String(row.rank)],
  ["call", "n", (row) => String(row.call)],
  ["dtype", "", (row) => row.dtype],
  ["shape", "", (row) => row.shape],
  ["origin", "", (row) => row.origin],
];

/**
 * A metric of the daemon, or one that was added to the row later, which may be
 * a text.
 * @param {any} row
 * @param {string} name
 */
function metricText(row, name) {
  if (name in row.metrics) return numberText(row.metrics[name]);
  const [value, text] = row.custom_metrics?.[name] ?? [];
  return value === null && text ? text : numberText(value);
}

const narrow = matchMedia("(max-width: 480px)");

export class RowTable {
  /**
   * @param {string} comparison
   * @param {string[]} metrics Metrics to show, if rows have them.
   * @param {boolean} canOpen Whether rows have a page.
   * @param {AbortSignal} signal
   */
  constructor(comparison, metrics, canOpen, signal) {
    this.comparison = comparison;
    this.canOpen = canOpen;
    this.signal = signal;
    /** @type {Column[]} */
    this.columns = [...COLUMNS.slice(0, -1),
      ...metrics.map((name) => /** @type {Column} */ (
          [name, "n", (row) => metricText(row, name)])),
      ...COLUMNS.slice(-1)];
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
    this.body = h("tbody");
    this.count = h("span", { role: "status", class: "dim" });
    this.scroll = h("div", { class: `rows scroll${canOpen ? " linked" : ""}`, tabindex: "0", role: "region",
        "aria-label": "Rows", onscroll: () => this.draw() },
      h("table", {}, h("thead", {}, h("tr", {}, ...this.columns.map(([name, kind]) =>
          h("th", { scope: "col", class: kind }, name)))), this.body));
    this.body.addEventListener("click", (event) => this.open(event));
    this.body.addEventListener("keydown", (event) => this.onKey(event));
    narrow.addEventListener("change", () => this.draw(), { signal });
    new ResizeObserver(() => this.draw()).observe(this.scroll);
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
  request(token) {
    return call("page.rows", {
      comparison: this.comparison, page_size: PAGE_ROWS, page_token: token, ...this.selection,
    }, this.signal);
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

  height() { return narrow.matches ? NARROW_ROW_HEIGHT : ROW_HEIGHT; }

  draw() {
    const height = this.height();
    const first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - SPARE_ROWS);
    const last = Math.min(this.rows.length,
        first + Math.ceil(this.scroll.clientHeight / height) + 2 * SPARE_ROWS);
    const pad = (/** @type {number} */ count) => {
      if (count <= 0) return null;
      const space = h("td", { class: "pad", colspan: this.columns.length });
      space.style.height = `${count * height}px`;
      return h("tr", { "aria-hidden": "true" }, space);
    };
    const focused = this.body.contains(document.activeElement)
        ? /** @type {HTMLElement} */ (document.activeElement).dataset.row : undefined;
    const shown = [pad(first), ...this.rows.slice(first, last).map((row) => this.line(row)),
        pad(this.rows.length - last)];
    this.body.replaceChildren(.../** @type {Node[]} */ (shown.filter((line) => line !== null)));
    if (focused !== undefined) {
      /** @type {HTMLElement | null} */ (this.body.querySelector(`[data-row="${focused}"]`))
          ?.focus({ preventScroll: true });
    }
    this.showCount();
    if (last + PAGE_ROWS / 2 > this.rows.length) this.load();
  }

  /** @param {any} row */
  line(row) {
    return h("tr", { class: row.verdict, "data-row": row.row, tabindex: "0" },
        ...this.columns.map(([name, kind, text]) => h("td", { class: kind, title: kind === "reason" && text(row) },
        name === "op" && narrow.matches ? h("span", {}, text(row), h("small", {}, row.reason)) : text(row))));
  }

  /** @param {any} event */
  rowOf(event) {
    const line = event.target.closest("tr");
    return line instanceof HTMLElement && line.dataset.row !== undefined ? line : null;
  }

  /** @param {any} event */
  open(event) {
    const line = this.rowOf(event);
    if (line && this.canOpen) location.hash = rowLink(this.comparison, Number(line.dataset.row));
  }

  /** @param {any} event */
  onKey(event) {
    const line = this.rowOf(event);
    if (!line) return;
    if (event.key === "Enter") return this.open(event);
    const next = event.key === "ArrowDown" ? line.nextElementSibling
        : event.key === "ArrowUp" ? line.previousElementSibling : null;
    if (!(next instanceof HTMLElement) || next.dataset.row === undefined) return;
    event.preventDefault();
    next.focus();
  }
}
