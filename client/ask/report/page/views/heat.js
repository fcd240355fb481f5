// SPDX-License-Identifier: Apache-2.0
// The heat map of a comparison: the worst row of each op and token, or of each
// layer and rank. Rows may arrive in increments.
import { nice } from "./axis.js";
import { drawCross, fit, legendKey, openCanvas } from "./canvas.js";
import { h, ink } from "./dom.js";
import { shareText } from "./format.js";
import {
  FAIL_FIRST, FAIL_SHARE_MAX, Grid, PASS_FIRST, SKIPPED, UNMATCHED, css, isDark, layerOf, palette, pictureOf,
} from "./grid.js";
import { Tip } from "./tip.js";

const TICK_HEIGHT = 34;
const MIN_LABEL_PX = 13;
const LABELS_MEASURED_MAX = 500;
const SMALL_LINE_PX = 32;
const MIN_HEIGHT_PX = 120;
// Cells of at least this size have a gap.
const GAP_CELL_PX = 9;

/**
 * The number of halvings after which a cell has at least a pixel.
 * @param {number} size In pixels.
 */
const stepsFor = (size) => Math.max(0, Math.ceil(-Math.log2(size)));

/** @typedef {"op" | "layer"} Kind */

/** A map without rows; those who extend it put them into `grid`. */
export class HeatMap {
  /**
   * @param {any} firstDivergence The row, or null.
   * @param {AbortSignal} signal
   */
  constructor(firstDivergence, signal) {
    this.first = firstDivergence;
    this.signal = signal;
    // The ramps in words.
    this.passText = this.failText = "";
    this.lineText = "";
    this.labelWidth = 0;
    /** @type {Kind} */
    this.kind = "op";
    this.grid = new Grid();
    /** @type {Map<string, HTMLCanvasElement>} */
    this.pictures = new Map();
    // Cells at the left and top edge, and pixels of a cell; 0: the whole map.
    this.left = 0;
    this.top = 0;
    this.zoomX = 0;
    this.zoomY = 0;
    /** @type {[number, number] | null} */
    this.cursor = null;
    this.isDrawing = false;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {
      tabindex: "0", role: "application", class: "heat",
      "aria-label": "Heat map. Arrow keys move, Enter opens the cell, + and - zoom, 0 shows everything.",
    }));
    this.tip = new Tip(signal);
    this.note = h("span", { class: "dim" });
    this.legend = h("div", { class: "legend" });
    const choose = (/** @type {Event} */ event) => this.start(/** @type {any} */ (event.target).value);
    this.element = h("section", { class: "map" },
      h("div", { class: "bar" }, h("h2", {}, "Where it differs"),
        h("label", {}, "show ", h("select", { onchange: choose },
          h("option", { value: "op" }, "ops by tokens"),
          h("option", { value: "layer" }, "layers by ranks"))),
        h("button", { type: "button", onclick: () => this.reset() }, "All"), this.note),
      this.canvas, this.legend, this.tip.element);
    this.listen();
  }

  listen() {
    const { canvas } = this;
    /** @type {[number, number, number, number] | null} */
    let drag = null;
    let hasMoved = false;
    canvas.addEventListener("pointerdown", (event) => {
      drag = [event.clientX, event.clientY, this.left, this.top];
      hasMoved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      // The button was released elsewhere.
      if (event.buttons === 0) drag = null;
      if (!drag) return this.point(this.cellAt(event), event);
      const [dx, dy] = [event.clientX - drag[0], event.clientY - drag[1]];
      if (!hasMoved && Math.abs(dx) + Math.abs(dy) <= 3) return;
      if (!hasMoved) canvas.setPointerCapture(event.pointerId);
      hasMoved = true;
      this.tip.hide();
      const box = this.box();
      this.left = drag[2] - dx / box.cellWidth;
      this.top = drag[3] - dy / box.cellHeight;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      const cell = drag && !hasMoved ? this.cellAt(event) : null;
      drag = null;
      if (cell) this.open(...cell);
    });
    canvas.addEventListener("pointercancel", () => { drag = null; });
    for (const name of ["pointerleave", "blur"]) canvas.addEventListener(name, () => this.tip.hide());
    canvas.addEventListener("wheel", (event) => {
      // Without a key, the wheel scrolls the page.
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom((event.deltaY || event.deltaX) < 0 ? 1.25 : 0.8, this.spotOf(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    isDark.addEventListener("change", () => this.refresh(), { signal: this.signal });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (this.grid.lines.length === 0) return;
    if (step) {
      const [x, y] = this.cursor || [-step[0], -step[1]];
      this.cursor = [Math.min(Math.max(x + step[0], 0), this.grid.columns.length - 1),
        Math.min(Math.max(y + step[1], 0), this.grid.lines.length - 1)];
      this.drawNow();
      this.point(this.cursor, this.middleOf(...this.cursor));
    } else if (event.key === "Enter") {
      if (this.cursor) this.open(...this.cursor);
    } else if (event.key === "+" || event.key === "-") {
      this.zoom(event.key === "+" ? 1.5 : 1 / 1.5, null);
    } else if (event.key === "0") {
      this.reset();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** The place of the map in the canvas, in CSS pixels. */
  box() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    const left = Math.min(width * 0.38, 240, Math.max(84, this.labelWidth));
    const mapWidth = Math.max(width - left - 8, 10);
    const mapHeight = Math.max(height - TICK_HEIGHT - 6, 10);
    const fitX = mapWidth / Math.max(this.grid.columns.length, 1);
    const fitY = mapHeight / Math.max(this.grid.lines.length, 1);
    return { left, top: 6, width: mapWidth, height: mapHeight,
        cellWidth: Math.max(this.zoomX, Math.min(fitX, 64)),
             cellHeight: Math.max(this.zoomY, Math.min(fitY, 40)) };
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  spotOf(event) {
    const bounds = this.canvas.getBoundingClientRect();
    return [event.clientX - bounds.left, event.clientY - bounds.top];
  }

  /** @param {MouseEvent} event @returns {[number, number] | null} */
  cellAt(event) {
    const box = this.box();
    const [px, py] = this.spotOf(event);
    const x = Math.floor(this.left + (px - box.left) / box.cellWidth);
    const y = Math.floor(this.top + (py - box.top) / box.cellHeight);
    const isInside = px >= box.left && py <= box.top + box.height &&
        x >= 0 && y >= 0 && x < this.grid.columns.length && y < this.grid.lines.length;
    return isInside ? [x, y] : null;
  }

  /** @param {number} factor @param {[number, number] | null} spot */
  zoom(factor, spot) {
    const box = this.box();
    const [px, py] = spot || [box.left + box.width / 2, box.top + box.height / 2];
    const x = this.left + (px - box.left) / box.cellWidth;
    const y = this.top + (py - box.top) / box.cellHeight;
    this.zoomX = Math.min(box.cellWidth * factor, 64);
    this.zoomY = Math.min(box.cellHeight * factor, 40);
    const after = this.box();
    this.left = x - (px - after.left) / after.cellWidth;
    this.top = y - (py - after.top) / after.cellHeight;
    this.draw();
  }

  reset() {
    this.left = this.top = this.zoomX = this.zoomY = 0;
    this.draw();
  }

  /**
   * The middle of a cell, in the window.
   * @param {number} x
   * @param {number} y
   */
  middleOf(x, y) {
    const bounds = this.canvas.getBoundingClientRect();
    const box = this.box();
    return { clientX: bounds.left + box.left + (x + 0.5 - this.left) * box.cellWidth,
        clientY: bounds.top + box.top + (y + 0.5 - this.top) * box.cellHeight };
  }

  /** @param {[number, number] | null} cell @param {{clientX: number, clientY: number}} at */
  point(cell, { clientX, clientY }) {
    if (cell) this.tip.show(this.describe(...cell), clientX, clientY); else this.tip.hide();
  }

  /**
   * The worst row of a cell in words.
   * @param {number} x
   * @param {number} y
   */
  describe(x, y) {
    const level = this.grid.levelAt(x, y);
    const row = this.grid.rowAt(x, y);
    const word = level >= FAIL_FIRST ? "fails" : level === UNMATCHED ? "unmatched"
        : level >= PASS_FIRST ? "passes" : level === SKIPPED ? "skipped" : "no row";
    const value = this.valueText(x, y);
    return `${this.grid.lines[y]}, ${this.columnName()} ${this.grid.columns[x]}: ${word}${value && `, ${value}`}` +
        (row >= 0 ? `, worst is row ${row}` : "");
  }

  /**
   * The worst value of a cell; empty if it has none.
   * @param {number} _x
   * @param {number} _y
   */
  valueText(_x, _y) { return ""; }

  /**
   * States what the colors stand for.
   * @param {import("./scale.js").Scale} scale
   */
  explain(scale) {
    this.passText = scale.isShare() ? "passes: far from its bound \u2026 at it" : "passes: smallest \u2026 largest error";
    this.failText = scale.isShare() ? `fails: at its bound \u2026 ${shareText(FAIL_SHARE_MAX)} of it`
        : "fails: smallest \u2026 largest error";
  }

  columnName() { return this.kind === "op" ? "token" : "rank"; }

  /**
   * Opens a cell.
   * @param {number} _x
   * @param {number} _y
   */
  open(_x, _y) {}

  /**
   * Shows another kind of map.
   * @param {Kind} kind
   */
  start(kind) {
    this.kind = kind;
    this.grid = new Grid();
    this.cursor = null;
    this.reset();
  }

  refresh() {
    this.pictures.clear();
    this.measureLabels();
    // A map of few lines is as high as they need.
    const wanted = this.grid.lines.length * SMALL_LINE_PX + TICK_HEIGHT + 8;
    this.canvas.style.maxHeight = `${Math.max(wanted, MIN_HEIGHT_PX)}px`;
    this.drawLegend();
    this.draw();
  }

  draw() {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      if (!this.signal.aborted) this.drawNow();
    });
  }

  /** The width that names of lines need. */
  measureLabels() {
    const { lines } = this.grid;
    const { g } = openCanvas(this.canvas);
    this.labelWidth = 0;
    for (let y = 0; y < lines.length; y += Math.ceil(lines.length / LABELS_MEASURED_MAX)) {
      this.labelWidth = Math.max(this.labelWidth, 14 + g.measureText(lines[y].slice(0, 99)).width);
    }
  }

  drawNow() {
    const { grid } = this;
    const { g, scale } = openCanvas(this.canvas);
    const box = this.box();
    this.left = Math.min(Math.max(this.left, 0), Math.max(0, grid.columns.length - box.width / box.cellWidth));
    this.top = Math.min(Math.max(this.top, 0), Math.max(0, grid.lines.length - box.height / box.cellHeight));
    g.save();
    g.beginPath();
    g.rect(box.left, box.top, box.width, box.height);
    g.clip();
    const stepX = stepsFor(box.cellWidth * scale);
    const stepY = stepsFor(box.cellHeight * scale);
    const picture = this.pictures.get(`${stepX} ${stepY}`) || pictureOf(grid, stepX, stepY);
    this.pictures.set(`${stepX} ${stepY}`, picture);
    g.imageSmoothingEnabled = false;
    g.drawImage(picture, box.left - this.left * box.cellWidth, box.top - this.top * box.cellHeight,
        picture.width * 2 ** stepX * box.cellWidth, picture.height * 2 ** stepY * box.cellHeight);
    this.drawGaps(g, box);
    this.drawOdd(g, box);
    this.drawMarks(g, box);
    g.restore();
    this.drawLabels(g, box);
  }

  /** @param {CanvasRenderingContext2D} g @param {ReturnType<HeatMap["box"]>} box */
  drawGaps(g, box) {
    if (Math.min(box.cellWidth, box.cellHeight) < GAP_CELL_PX) return;
    g.fillStyle = ink("--bg");
    for (let x = Math.floor(this.left) + 1; x <= this.grid.columns.length; ++x) {
      const at = box.left + (x - this.left) * box.cellWidth;
      if (at > box.left + box.width) break;
      g.fillRect(at - 1, box.top, 1, box.height);
    }
    for (let y = Math.floor(this.top) + 1; y <= this.grid.lines.length; ++y) {
      const at = box.top + (y - this.top) * box.cellHeight;
      if (at > box.top + box.height) break;
      g.fillRect(box.left, at - 1, box.width, 1);
    }
  }

  /** @param {CanvasRenderingContext2D} g @param {ReturnType<HeatMap["box"]>} box */
  drawOdd(g, box) {
    const size = Math.min(box.cellWidth, box.cellHeight) / 2 - 1.5;
    g.fillStyle = g.strokeStyle = ink("--mark");
    for (const [x, y] of this.grid.odd.values()) {
      const left = box.left + (x - this.left) * box.cellWidth;
      const top = box.top + (y - this.top) * box.cellHeight;
      if (size > 1.5) {
        drawCross(g, left + box.cellWidth / 2, top + box.cellHeight / 2, Math.min(size, 4));
      } else {
        g.fillRect(left, top, Math.max(1, Math.min(6, box.cellWidth / 2)), Math.max(1, box.cellHeight));
      }
    }
  }

  /** @param {CanvasRenderingContext2D} g @param {ReturnType<HeatMap["box"]>} box */
  drawMarks(g, box) {
    /** @param {number} x @param {number} y @param {string} color @param {number} width */
    const frame = (x, y, color, width) => {
      g.strokeStyle = color;
      g.lineWidth = width;
      const w = Math.max(box.cellWidth, 7);
      const t = Math.max(box.cellHeight, 7);
      g.strokeRect(box.left + (x + 0.5 - this.left) * box.cellWidth - w / 2,
        box.top + (y + 0.5 - this.top) * box.cellHeight - t / 2, w, t);
    };
    if (this.first) {
      const x = this.grid.columnOf.get(this.kind === "op" ? Number(this.first.token) : this.first.rank);
      const y = this.grid.lineOf.get(this.kind === "op" ? this.first.op : layerOf(this.first.op));
      if (x !== undefined && y !== undefined) frame(x, y, ink("--mark"), 3);
    }
    if (this.cursor) frame(this.cursor[0], this.cursor[1], ink("--fg"), 2);
  }

  /** @param {CanvasRenderingContext2D} g @param {ReturnType<HeatMap["box"]>} box */
  drawLabels(g, box) {
    const { grid } = this;
    const bottom = box.top + Math.min(box.height, (grid.lines.length - this.top) * box.cellHeight);
    const right = box.left + Math.min(box.width, (grid.columns.length - this.left) * box.cellWidth);
    g.fillStyle = ink("--dim");
    g.textAlign = "right";
    const everyLine = Math.max(1, Math.ceil(MIN_LABEL_PX / box.cellHeight));
    for (let y = Math.ceil(this.top / everyLine) * everyLine; y < grid.lines.length; y += everyLine) {
      const at = box.top + (y + 0.5 - this.top) * box.cellHeight;
      if (at > box.top + box.height) break;
      g.fillText(fit(g, grid.lines[y], box.left - 10), box.left - 6, at);
    }
    g.textAlign = "center";
    const everyColumn = nice(Math.max(1, Math.ceil(44 / box.cellWidth)));
    for (let x = Math.ceil(this.left / everyColumn) * everyColumn; x < grid.columns.length; x += everyColumn) {
      const at = box.left + (x + 0.5 - this.left) * box.cellWidth;
      if (at > box.left + box.width) break;
      g.fillText(String(grid.columns[x]), at, bottom + 10);
    }
    g.fillText(this.columnName(), Math.max((box.left + right) / 2, box.left + 16), bottom + 25);
    g.textAlign = "left";
    if (this.kind === "op") g.fillText(this.lineText, 4, bottom + 25);
  }

  drawLegend() {
    const { pass, fail, unmatched, skipped } = palette();
    const ramp = (/** @type {number[][]} */ [a, b]) => `linear-gradient(90deg, ${css(a)}, ${css(b)})`;
    const first = h("i");
    first.style.border = `2px solid ${ink("--mark")}`;
    this.legend.replaceChildren(
      legendKey(ramp(pass), this.passText, "ramp"), legendKey(ramp(fail), this.failText, "ramp"),
      legendKey(css(unmatched), "unmatched"), legendKey(css(skipped), "skipped"),
      this.grid.odd.size ? h("span", {}, h("i", { class: "cross" }, "\u00d7"), "NaN or Inf") : "",
      this.first ? h("span", {}, first, "first divergence") : "");
  }
}
