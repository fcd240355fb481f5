// SPDX-License-Identifier: Apache-2.0
// The heat map of a report, whose rows are all known.
import { placeText } from "./facts.js";
import { DATA, OPS, ROWS, ROW_OF } from "./frozen.js";
import { CELLS_MAX, Grid, layerOf } from "./grid.js";
import { HeatMap } from "./heat.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */
/** @typedef {import("./measure.js").Measure} Measure */

const ascending = (/** @type {number} */ a, /** @type {number} */ b) => a - b;

/**
 * A row in words.
 * @param {FrozenRow} row
 * @param {Measure} measure
 */
export function rowText(row, measure) {
  return `row ${row.row}: ${row.op}, token ${row.token}, ${placeText(row)}: ${row.verdict}, ${measure.valueText(measure.rawOf(row))}` +
      (row.reason ? `; ${row.reason}` : "");
}

export class FrozenMap extends HeatMap {
  /**
   * @param {AbortSignal} signal
   * @param {Measure} measure
   * @param {(label: string, has: (row: FrozenRow) => boolean) => void} onOpen
   */
  constructor(signal, measure, onOpen) {
    super(DATA.comparison.first, signal);
    this.onOpen = onOpen;
    this.lineText = "op, as it ends";
    this.measure = measure;
    /** @type {(row: FrozenRow) => number} */
    this.columnOf = (row) => row.rank;
    // The last token of a column that has several.
    /** @type {Map<number, number>} */
    this.lastOf = new Map();
  }

  /** @param {Measure} measure */
  color(measure) {
    this.measure = measure;
    this.explain(measure);
    this.fill();
  }

  /** @param {import("./heat.js").Kind} kind */
  start(kind) {
    super.start(kind);
    this.fill();
  }

  /** @param {FrozenRow} row */
  lineOf(row) { return this.kind === "op" ? row.op : layerOf(row.op); }

  /** Tokens or ranks in order. Tokens that do not fit share a column. */
  setColumns() {
    this.lastOf.clear();
    if (this.kind === "layer") {
      this.columnOf = (row) => row.rank;
      return [...new Set(ROWS.map((row) => row.rank))].sort(ascending);
    }
    const tokens = [...new Set(ROWS.map((row) => row.token))].sort(ascending);
    const perColumn = Math.max(1, Math.ceil(OPS.length * tokens.length / CELLS_MAX));
    /** @type {Map<number, number>} */
    const firstOf = new Map();
    tokens.forEach((token, i) => {
      const first = tokens[i - i % perColumn];
      firstOf.set(token, first);
      this.lastOf.set(first, token);
    });
    this.columnOf = (row) => firstOf.get(row.token) ?? row.token;
    return [...this.lastOf.keys()];
  }

  fill() {
    const { cursor } = this;
    const { kind, left, top, zoomX, zoomY } = this;
    super.start(kind);
    Object.assign(this, { cursor, left, top, zoomX, zoomY });
    if (ROWS.length) {
      const lines = kind === "op" ? OPS : [...new Set(OPS.map(layerOf))];
      const columns = this.setColumns();
      this.grid = new Grid(columns.length, lines.length);
      for (const line of lines) this.grid.place(line, columns[0]);
      for (const column of columns) this.grid.place(lines[0], column);
    }
    for (const row of ROWS) {
      const [line, column] = [this.lineOf(row), this.columnOf(row)];
      const error = this.measure.error(row);
      this.grid.put(line, column, this.measure.level(row), row.row,
          row.verdict === "fail" && Number.isNaN(error) ? Infinity : error);
      if (this.measure.isOdd(row)) this.grid.markOdd(line, column);
    }
    this.note.textContent = this.grid.isCut ? "not all fit" : "";
    this.refresh();
  }

  /** @param {number} x @param {number} y */
  placeText(x, y) {
    const column = /** @type {number} */ (this.grid.columns[x]);
    const last = this.kind === "op" ? this.lastOf.get(column) : column;
    return `${this.grid.lines[y]}, ${this.columnName()}${last === column ? ` ${column}` : `s ${column} to ${last}`}`;
  }

  /** @param {number} x @param {number} y */
  describe(x, y) {
    const row = ROW_OF.get(this.grid.rowAt(x, y));
    return row ? rowText(row, this.measure) : `${this.placeText(x, y)}: no row`;
  }

  /** @param {number} x @param {number} y */
  open(x, y) {
    const [line, column] = [this.grid.lines[y], this.grid.columns[x]];
    this.onOpen(`only ${this.placeText(x, y)}`, (row) => this.lineOf(row) === line && this.columnOf(row) === column);
  }
}
