// SPDX-License-Identifier: Apache-2.0
// A table of rows, of which only the visible ones are elements.
import { h } from "./dom.js";
import { countText, numberText, shareText, toNumber } from "./format.js";

const ROW_HEIGHT = 24;
const NARROW_ROW_HEIGHT = 48;
const SPARE_ROWS = 12;
// A table on paper has no further rows.
const PRINTED_ROWS_MAX = 500;

/** @typedef {import("./facts.js").Row} Row */
/**
 * @typedef {[string, string, (row: any) => any, ((value: any, row: any) => string)?]} Column
 *     Heading, class, value, and its text. Values of the class `n` are numbers.
 */

/** @type {Column[]} */
const COLUMNS = [
  ["row", "n", (row) => row.row],
  ["verdict", "word", (row) => row.verdict],
  ["op", "op", (row) => row.op],
  ["io", "", (row) => row.io],
  ["index", "", (row) => row.index],
  ["of bound", "n", (row) => row.share, shareText],
  ["reason", "reason", (row) => row.reason],
  ["token", "n", (row) => row.token],
  ["rank", "n", (row) => row.rank, (rank, row) => row.ranks || String(rank)],
  ["call", "n", (row) => row.call],
  ["dtype", "", (row) => row.dtype],
  ["shape", "", (row) => row.shape],
];

/** @param {Column[]} metrics @returns {Column[]} */
export const columnsWith = (metrics) => [...COLUMNS, ...metrics, ["origin", "", (row) => row.origin]];

/** @param {string} name @param {(row: any) => any} valueOf @returns {Column} */
export const metricColumn = (name, valueOf) => [name, "n", valueOf, numberText];

/**
 * NaN comes last in both directions.
 * @param {any} a
 * @param {any} b
 * @param {boolean} isDown
 */
function compareValues(a, b, isDown) {
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return (a < b ? -1 : a > b ? 1 : 0) * (isDown ? -1 : 1);
}

const narrow = matchMedia("(max-width: 480px)");

export class RowView {
  /**
   * @param {Column[]} columns
   * @param {AbortSignal} signal
   * @param {((row: any, isStep: boolean) => void) | null} onOpen Null if rows
   *     cannot be opened. After a step, the table remains in view.
   * @param {(() => void) | null} onSort Called when the user has chosen another
   *     order. Null if rows have only one.
   */
  constructor(columns, signal, onOpen, onSort) {
    this.allColumns = columns;
    this.onOpen = onOpen;
    this.onSort = onSort;
    /** @type {any[]} */
    this.rows = [];
    // Whether rows are opened beside the table, which then remains in view.
    this.opensBeside = false;
    /** @type {any} The row that is open beside the table. */
    this.current = null;
    /** @type {Column | null} */
    this.sorted = null;
    this.isDown = false;
    this.isPrinting = false;
    this.head = h("tr");
    this.body = h("tbody", { onclick: (event) => this.open(this.indexOf(event)), onkeydown: (event) => this.onKey(event) });
    this.scroll = h("div", { class: `rows scroll${onOpen ? " linked" : ""}`, tabindex: "0", role: "region",
        "aria-label": "Rows", onscroll: () => requestAnimationFrame(() => this.draw()) },
      h("table", {}, h("thead", {}, this.head), this.body));
    this.drawHead();
    narrow.addEventListener("change", () => {
      this.drawHead();
      this.draw();
    }, { signal });
    for (const name of ["beforeprint", "afterprint"]) {
      addEventListener(name, () => {
        this.isPrinting = name === "beforeprint";
        this.draw();
      }, { signal });
    }
    new ResizeObserver(() => this.draw()).observe(this.scroll);
  }

  /** On narrow screens, the reason is below the op. */
  columns() {
    if (!narrow.matches) return this.allColumns;
    const first = ["op", "verdict"];
    const rank = (/** @type {Column} */ [name]) => first.includes(name) ? first.indexOf(name) : first.length;
    return this.allColumns.filter(([name]) => name !== "reason").sort((a, b) => rank(a) - rank(b));
  }

  drawHead() {
    this.head.replaceChildren(...this.columns().map((column) => {
      const [name, kind] = column;
      const isSorted = column === this.sorted;
      return h("th", {
        scope: "col", class: kind, "data-column": name, tabindex: this.onSort && "0",
        "aria-sort": isSorted && (this.isDown ? "descending" : "ascending"),
        onclick: () => this.sortBy(column),
        onkeydown: (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          this.sortBy(column);
          [...this.head.children].forEach((th) => /** @type {any} */ (th).dataset.column === name && /** @type {any} */ (th).focus());
        },
      }, name, isSorted ? this.isDown ? " \u25be" : " \u25b4" : "");
    }));
  }

  /** @param {Column | null} column Null for the order of the rows. */
  sortBy(column) {
    if (!this.onSort) return;
    this.isDown = column !== null && column === this.sorted && !this.isDown;
    this.sorted = column;
    this.drawHead();
    this.onSort();
  }

  /**
   * The rows in the order that is chosen.
   * @param {any[]} rows In their own order.
   */
  inOrder(rows) {
    if (!this.sorted) return rows;
    const [, kind, valueOf] = this.sorted;
    const values = rows.map((row) => ({ row, value: kind === "n" ? toNumber(valueOf(row)) : valueOf(row) }));
    values.sort((a, b) => compareValues(a.value, b.value, this.isDown));
    return values.map(({ row }) => row);
  }

  height() { return narrow.matches ? NARROW_ROW_HEIGHT : ROW_HEIGHT; }

  draw() {
    const height = this.height();
    const columns = this.columns();
    let first = Math.max(0, Math.floor(this.scroll.scrollTop / height) - SPARE_ROWS);
    let last = first + Math.ceil(this.scroll.clientHeight / height) + 2 * SPARE_ROWS;
    if (this.isPrinting) [first, last] = [0, PRINTED_ROWS_MAX];
    // A box without a height of its own would grow with its rows.
    last = Math.min(this.rows.length, last, first + PRINTED_ROWS_MAX);
    const pad = (/** @type {number} */ count) => {
      if (count <= 0) return null;
      const space = h("td", { class: "pad", colspan: columns.length });
      space.style.height = `${count * height}px`;
      return h("tr", { class: "pad", "aria-hidden": "true" }, space);
    };
    const at = this.rows.indexOf(this.current);
    const stop = at >= first && at < last ? at : Math.min(this.rows.length - 1, Math.ceil(this.scroll.scrollTop / height));
    const focused = this.body.contains(document.activeElement)
        ? /** @type {HTMLElement} */ (document.activeElement).dataset.i : undefined;
    const shown = [pad(first), ...this.rows.slice(first, last).map((row, i) => this.line(row, first + i, columns, stop)),
        pad(this.rows.length - last)];
    const rest = this.rows.length - last;
    if (this.isPrinting && rest > 0) {
      shown.push(h("tr", {}, h("td", { colspan: columns.length }, `${countText(rest)} more rows are not printed`)));
    }
    this.body.replaceChildren(.../** @type {Node[]} */ (shown.filter((line) => line !== null)));
    if (focused !== undefined) this.lineOf(focused)?.focus({ preventScroll: true });
  }

  /** @param {any} row @param {number} i @param {Column[]} columns @param {number} stop The line that Tab leads to. */
  line(row, i, columns, stop) {
    const isCurrent = row === this.current;
    return h("tr", { class: row.verdict + (isCurrent ? " current" : ""), "data-row": row.row, "data-i": i,
        tabindex: i === stop ? "0" : "-1", "aria-current": isCurrent && "true" },
        ...columns.map(([name, kind, valueOf, textOf]) => {
          const value = valueOf(row);
          const text = textOf ? textOf(value, row) : String(value);
          return h("td", { class: kind, title: text },
              name === "op" && narrow.matches ? h("span", {}, text, h("small", {}, row.reason || "\u00a0")) : text);
        }));
  }

  /** @param {string | number} i @returns {HTMLElement | null} */
  lineOf(i) { return this.body.querySelector(`[data-i="${i}"]`); }

  /** @param {any} event */
  indexOf(event) {
    const line = event.target.closest("tr");
    return line instanceof HTMLElement && line.dataset.i !== undefined ? Number(line.dataset.i) : -1;
  }

  /** @param {number} i @param {boolean} isStep Whether another row was open. */
  open(i, isStep = false) {
    if (this.onOpen && i in this.rows) this.onOpen(this.rows[i], isStep);
  }

  /**
   * Scrolls to a line and gives it the focus.
   * @param {number} i
   */
  reveal(i) {
    const { scroll } = this;
    const height = this.height();
    const top = i * height;
    // The heading covers the first line.
    const end = top + 2 * height + 20;
    if (top < scroll.scrollTop) scroll.scrollTop = top;
    else if (end > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = end - scroll.clientHeight;
    this.draw();
    this.lineOf(i)?.focus({ preventScroll: true });
  }

  /**
   * Goes to the next row that fails.
   * @param {1 | -1} step
   */
  nextFailing(step) {
    const { rows } = this;
    const held = this.body.contains(document.activeElement) ? this.indexOf({ target: document.activeElement }) : -1;
    const at = this.current ? rows.indexOf(this.current) : held;
    const from = at < 0 && step < 0 ? rows.length : at;
    for (let k = 1; k <= rows.length; ++k) {
      const i = (from + step * k + rows.length) % rows.length;
      if (rows[i]?.verdict !== "fail") continue;
      return this.goTo(i);
    }
  }

  /** @param {number} i */
  goTo(i) {
    if (this.opensBeside) this.open(i, true);
    this.reveal(i);
    this.scroll.scrollIntoView({ block: "nearest" });
  }

  /** @param {any} event */
  onKey(event) {
    const i = this.indexOf(event);
    if (i < 0) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[/** @type {string} */ (event.key)];
    if (event.key === "Enter" || event.key === " ") {
      this.open(i);
    } else if (step && i + step in this.rows) {
      if (this.current) this.open(i + step, true);
      this.reveal(i + step);
    } else {
      return;
    }
    event.preventDefault();
  }
}
