// SPDX-License-Identifier: Apache-2.0
// The data of a report, in place of the calls of a page.
import { toNumber } from "./format.js";

/**
 * What html_report.cc writes.
 * @typedef {object} Frozen
 * @property {string[]} metrics
 * @property {boolean[]} higher Whether higher values of a metric are better.
 * @property {string[]} units
 * @property {string[]} custom The last of the metrics, which were added later.
 * @property {[string, any][]} bounds
 * @property {{name: string, verdict: string, first: any, facts: [string, string, number][],
 *     setup: [string, string, number][]}} comparison
 * @property {any[][]} rows Numbers, and positions of texts in `texts`.
 * @property {string[]} texts
 * @property {{limit: number, rows: Record<string, any>}} histograms
 */

/** @type {Frozen} */
export const DATA = JSON.parse(/** @type {HTMLElement} */ (document.getElementById("data")).textContent || "");

const WORDS = ["pass", "fail", "unmatched", "skipped"];
const FIRST_METRIC = 16;
const FIRST_TEXT = FIRST_METRIC + DATA.metrics.length;
const AFTER_TEXTS = FIRST_TEXT + DATA.custom.length;

/** A row, of which only the cells are stored: a report has up to millions. */
export class FrozenRow {
  /** @param {any[]} cells */
  constructor(cells) { this.cells = cells; }

  /** @param {number} cell @returns {string} */
  text(cell) { return DATA.texts[this.cells[cell]]; }

  /** @returns {number} */
  get row() { return this.cells[0]; }
  /** @returns {number} */
  get rank() { return this.cells[1]; }
  /** @returns {number} */
  get token() { return this.cells[2]; }
  get op() { return this.text(3); }
  /** @returns {number} */
  get call() { return this.cells[4]; }
  get io() { return this.text(5); }
  get index() { return this.text(6); }
  get dtype() { return this.text(7); }
  get shape() { return this.text(8); }
  get verdict() { return WORDS[this.cells[9]]; }
  get origin() { return this.text(10); }
  get reason() { return this.text(11); }
  get predicate() { return this.text(12); }
  /** @returns {number} */
  get non_finite() { return this.cells[13]; }
  get decided_by() { return this.cells[14] === null ? undefined : DATA.metrics[this.cells[14]]; }
  /** @returns {number | string | null} */
  get share() { return this.cells[15]; }
  get request() { return this.text(AFTER_TEXTS); }
  get pairing() { return this.text(AFTER_TEXTS + 1); }
  /** The reason without its numbers. */
  get alike() { return this.text(AFTER_TEXTS + 2); }
  get ranks() { return this.text(AFTER_TEXTS + 3); }
  get shards() { return this.text(AFTER_TEXTS + 4); }

  /** @param {number} metric @returns {number | string | null} */
  metric(metric) { return this.cells[FIRST_METRIC + metric]; }

  /**
   * The text of a metric that was added.
   * @param {number} custom
   */
  note(custom) { return this.text(FIRST_TEXT + custom); }

  get metrics() {
    return Object.fromEntries(MEASURED.filter((i) => i < FIRST_CUSTOM && this.metric(i) !== null)
        .map((i) => [DATA.metrics[i], this.metric(i)]));
  }

  get custom_metrics() {
    return Object.fromEntries(DATA.custom.map((name, i) => /** @type {[string, [any, string]]} */ (
        [name, [this.metric(FIRST_CUSTOM + i), this.note(i)]]))
        .filter(([, [value, text]]) => value !== null || text));
  }
}

const FIRST_CUSTOM = DATA.metrics.length - DATA.custom.length;
export const ROWS = DATA.rows.map((cells) => new FrozenRow(cells));
export const ROW_OF = new Map(ROWS.map((row) => [row.row, row]));
/** Positions of the metrics that at least one row has. */
export const MEASURED = [...DATA.metrics.keys()].filter((i) => ROWS.some((row) => row.metric(i) !== null));

/** Ops as they end, so that a module comes after its parts although it begins before them. */
export const OPS = (() => {
  /** @type {Map<string, {at: number, hasOutput: boolean}>} */
  const ends = new Map();
  ROWS.forEach((row, at) => {
    const end = ends.get(row.op);
    const hasOutput = row.io === "output";
    if (!end) ends.set(row.op, { at, hasOutput });
    else if (hasOutput && !end.hasOutput) Object.assign(end, { at, hasOutput });
  });
  return [...ends].sort(([, a], [, b]) => a.at - b.at).map(([op]) => op);
})();

/**
 * A side of the histogram of a row.
 * @param {string} name
 * @param {any} histogram
 * @returns {import("./histogram.js").Side | null}
 */
function frozenSide(name, { low, high, [name]: side }) {
  if (!side) return null;
  const [counts, below, above, nan] = side;
  return { name, low: toNumber(low), high: toNumber(high), counts, below, above, nan };
}

/**
 * The histograms of a row, and why it lacks one.
 * @param {number} row
 */
export function histogramsOf(row) {
  const { limit, rows } = DATA.histograms;
  const found = rows[row];
  if (found) return { sides: [frozenSide("golden", found), frozenSide("target", found)], note: String(found.note) };
  return { sides: [], note: limit
    ? `this report has those of ${limit} rows, rows that fail first; msitctl compare report --histograms takes another number.`
    : "this report was made without." };
}
