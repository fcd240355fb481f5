// SPDX-License-Identifier: Apache-2.0
// The heat map of a comparison: the worst row of each op and token, or of each
// layer and rank. Rows are reduced by the daemon, and arrive in increments.
import { callPatiently, sleep } from "./api.js";
import { h, ink } from "./dom.js";
import { countText, shareText, toNumber } from "./format.js";
import { rowLink } from "./row.js";

// A cell is a byte, so that the larger of two bytes is the worse of two cells.
const NONE = 0;
const SKIPPED = 1;
const PASS_FIRST = 2;
const PASS_LAST = 120;
const UNMATCHED = 124;
const FAIL_FIRST = 128;
const FAIL_LAST = 255;
// The share of the bound at which the color of a failing cell is strongest.
const FAIL_SHARE_MAX = 1e4;

// Cells that one map holds; further tokens or ops are left out, and a note says
// so.
const CELLS_MAX = 4_000_000;
const POLL_MS = 1000;
const LABEL_CHARS = 28;
const TICK_HEIGHT = 34;
const MIN_LABEL_PX = 13;
const SMALL_LINE_PX = 32;
const MIN_HEIGHT_PX = 120;
// Cells of at least this size have a gap.
const GAP_CELL_PX = 9;

/**
 * Ramps that differ in lightness as well as in hue, so that they are told apart
 * without colors.
 */
const PALETTES = {
  light: { pass: [[222, 235, 247], [66, 133, 200]], fail: [[253, 174, 97], [165, 0, 38]],
      unmatched: [110, 119, 129], skipped: [190, 196, 203], none: [255, 255, 255] },
  dark: { pass: [[22, 44, 74], [74, 140, 210]], fail: [[253, 174, 97], [255, 84, 64]],
      unmatched: [139, 148, 158], skipped: [60, 66, 74], none: [13, 17, 23] },
};

const isDark = matchMedia("(prefers-color-scheme: dark)");
const palette = () => PALETTES[isDark.matches ? "dark" : "light"];

/** @param {number[]} a @param {number[]} b @param {number} part */
const mix = (a, b, part) => a.map((x, i) => Math.round(x + (b[i] - x) * part));

/** @param {number[]} rgb */
const css = (rgb) => `rgb(${rgb.join()})`;

/** @param {{fails: boolean, passes: boolean, isUnmatched: boolean, share: number}} group */
function levelOf({ fails, passes, isUnmatched, share }) {
  if (fails) {
    const part = Number.isNaN(share) || !Number.isFinite(share) ? 1
        : Math.log(Math.max(share, 1)) / Math.log(FAIL_SHARE_MAX);
    return FAIL_FIRST + Math.round(Math.min(part, 1) * (FAIL_LAST - FAIL_FIRST));
  }
  if (isUnmatched) return UNMATCHED;
  if (!passes) return SKIPPED;
  const part = Number.isNaN(share) ? 0 : Math.min(Math.max(share, 0), 1);
  return PASS_FIRST + Math.round(part * (PASS_LAST - PASS_FIRST));
}

/** @param {number} level */
function colorOf(level) {
  const { pass, fail, unmatched, skipped, none } = palette();
  if (level >= FAIL_FIRST) return mix(fail[0], fail[1], (level - FAIL_FIRST) / (FAIL_LAST - FAIL_FIRST));
  if (level === UNMATCHED) return unmatched;
  if (level >= PASS_FIRST) return mix(pass[0], pass[1], (level - PASS_FIRST) / (PASS_LAST - PASS_FIRST));
  return level === SKIPPED ? skipped : none;
}

/** The cells, which grow in both directions. */
class Grid {
  constructor() {
    /** @type {(string | number)[]} */
    this.columns = [];
    /** @type {string[]} */
    this.lines = [];
    /** @type {Map<string | number, number>} */
    this.columnOf = new Map();
    /** @type {Map<string, number>} */
    this.lineOf = new Map();
    this.stride = 64;
    this.levels = new Uint8Array(64 * 64);
    this.rows = new Int32Array(64 * 64).fill(-1);
    // Shares of the bound: levels of large ones are equal.
    this.shares = new Float32Array(64 * 64);
    this.isCut = false;
  }

  /** @param {string} line @param {string | number} column */
  place(line, column) {
    let y = this.lineOf.get(line);
    let x = this.columnOf.get(column);
    const wide = this.columns.length + (x === undefined ? 1 : 0);
    const high = this.lines.length + (y === undefined ? 1 : 0);
    if (wide * high > CELLS_MAX) {
      this.isCut = true;
      if (x === undefined || y === undefined) return -1;
    }
    if (y === undefined) {
      y = this.lines.push(line) - 1;
      this.lineOf.set(line, y);
    }
    if (x === undefined) {
      x = this.columns.push(column) - 1;
      this.columnOf.set(column, x);
    }
    this.grow(wide, high);
    return y * this.stride + x;
  }

  /** @param {number} wide @param {number} high */
  grow(wide, high) {
    if (wide <= this.stride && high * this.stride <= this.levels.length) return;
    let stride = this.stride;
    while (stride < wide) stride *= 2;
    let height = Math.max(64, this.levels.length / this.stride);
    while (height < high) height *= 2;
    /** @template {Uint8Array | Int32Array | Float32Array} T @param {T} from @param {T} to */
    const copied = (from, to) => {
      for (let y = 0; (y + 1) * this.stride <= from.length; ++y) {
        to.set(from.subarray(y * this.stride, (y + 1) * this.stride), y * stride);
      }
      return to;
    };
    this.levels = copied(this.levels, new Uint8Array(stride * height));
    this.rows = copied(this.rows, new Int32Array(stride * height).fill(-1));
    this.shares = copied(this.shares, new Float32Array(stride * height));
    this.stride = stride;
  }

  /** @param {string} line @param {string | number} column @param {number} level @param {number} row @param {number} share */
  put(line, column, level, row, share) {
    const i = this.place(line, column);
    if (i < 0) return;
    const isWorse = level > this.levels[i] || (level === this.levels[i] && share > this.shares[i]);
    if (this.rows[i] >= 0 && !isWorse) return;
    this.levels[i] = level;
    this.rows[i] = row;
    this.shares[i] = share;
  }
}

/**
 * Draws the grid, with `2 ** stepX` columns and `2 ** stepY` lines in each pixel.
 * A pixel is the worst of its cells, so that a single failing cell is visible in
 * a map of a million cells.
 * @param {Grid} grid
 * @param {number} stepX
 * @param {number} stepY
 */
function pictureOf(grid, stepX, stepY) {
  const lut = new Uint32Array(256);
  for (let level = 0; level < 256; ++level) {
    const [r, g, b] = colorOf(level);
    lut[level] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  const picture = document.createElement("canvas");
  picture.width = Math.max(1, Math.ceil(grid.columns.length / 2 ** stepX));
  picture.height = Math.max(1, Math.ceil(grid.lines.length / 2 ** stepY));
  const worst = new Uint8Array(picture.width * picture.height);
  for (let y = 0; y < grid.lines.length; ++y) {
    const from = y * grid.stride;
    const to = (y >> stepY) * picture.width;
    for (let x = 0; x < grid.columns.length; ++x) {
      const level = grid.levels[from + x];
      if (level > worst[to + (x >> stepX)]) worst[to + (x >> stepX)] = level;
    }
  }
  const image = new ImageData(picture.width, picture.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < worst.length; ++i) pixels[i] = lut[worst[i]];
  /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d")).putImageData(image, 0, 0);
  return picture;
}

/**
 * The number of halvings after which a cell has at least a pixel.
 * @param {number} size In pixels.
 */
const stepsFor = (size) => Math.max(0, Math.ceil(-Math.log2(size)));

/**
 * The layer of an op: the path up to its first number, such as
 * `model.layers.12`. An op without a number is a layer of its own.
 * @param {string} op
 */
export function layerOf(op) {
  const match = /^(?:.*?[._/])??\d+(?=[._/]|$)/.exec(op);
  return match ? match[0] : op;
}

/** @typedef {"op" | "layer"} Kind */

export class HeatMap {
  /**
   * @param {string} comparison
   * @param {any} firstDivergence The row, or undefined.
   * @param {AbortSignal} signal
   */
  constructor(comparison, firstDivergence, signal) {
    this.comparison = comparison;
    this.first = firstDivergence;
    this.signal = signal;
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
    this.generation = 0;
    this.isDrawing = false;
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {
      tabindex: "0", role: "application", class: "heat",
      "aria-label": "Heat map. Arrow keys move, Enter opens the worst row of the cell, + and - zoom, 0 shows everything.",
    }));
    this.tip = h("p", { class: "dim tip", role: "status" });
    this.note = h("span", { class: "dim" });
    this.legend = h("div", { class: "legend" });
    const choose = (/** @type {Event} */ event) =>
        this.start(/** @type {any} */ (event.target).value);
    this.element = h("section", { class: "map" },
      h("div", { class: "bar" }, h("h2", {}, "Where it differs"),
        h("label", {}, "show ", h("select", { onchange: choose },
          h("option", { value: "op" }, "ops by tokens"),
          h("option", { value: "layer" }, "layers by ranks"))),
        h("button", { type: "button", onclick: () => this.reset() }, "All"), this.note),
      this.canvas, this.tip, this.legend);
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
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) return this.point(this.cellAt(event));
      const [dx, dy] = [event.clientX - drag[0], event.clientY - drag[1]];
      if (Math.abs(dx) + Math.abs(dy) > 3) hasMoved = true;
      if (!hasMoved) return;
      const box = this.box();
      this.left = drag[2] - dx / box.cellWidth;
      this.top = drag[3] - dy / box.cellHeight;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      drag = null;
      if (!hasMoved) this.open(this.cellAt(event));
    });
    canvas.addEventListener("pointerleave", () => { this.tip.textContent = ""; });
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
    if (step) {
      const [x, y] = this.cursor || [-step[0], -step[1]];
      this.cursor = [Math.min(Math.max(x + step[0], 0), this.grid.columns.length - 1),
        Math.min(Math.max(y + step[1], 0), this.grid.lines.length - 1)];
      this.point(this.cursor);
      this.draw();
    } else if (event.key === "Enter") {
      this.open(this.cursor);
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
    const left = width < 600 ? 96 : 220;
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

  /** @param {[number, number] | null} cell */
  point(cell) {
    if (!cell) {
      this.tip.textContent = "";
      return;
    }
    const { grid } = this;
    const row = grid.rows[cell[1] * grid.stride + cell[0]];
    const level = grid.levels[cell[1] * grid.stride + cell[0]];
    const word = level >= FAIL_FIRST ? "fails" : level === UNMATCHED ? "unmatched"
        : level >= PASS_FIRST ? "passes" : level === SKIPPED ? "skipped" : "no row";
    const column = this.kind === "op" ? "token" : "rank";
    this.tip.textContent = `${grid.lines[cell[1]]}, ${column} ${grid.columns[cell[0]]}: ${word}` +
        (row >= 0 ? `, worst is row ${row}` : "");
  }

  /** @param {[number, number] | null} cell */
  open(cell) {
    if (!cell) return;
    const row = this.grid.rows[cell[1] * this.grid.stride + cell[0]];
    if (row >= 0) location.hash = rowLink(this.comparison, row);
  }

  /** @param {any} part An answer of page.groups. */
  take(part) {
    for (const [op, rank, token, pass, fail, unmatched, , worst, row] of part.groups) {
      const share = toNumber(worst);
      const level = levelOf({ fails: fail > 0, passes: pass > 0, isUnmatched: unmatched > 0, share });
      const name = part.ops[op];
      const [line, column] = this.kind === "op" ? [name, token] : [layerOf(name), rank];
      this.grid.put(line, column, level, row, Number.isNaN(share) && fail > 0 ? Infinity : share || 0);
    }
    this.refresh();
  }

  /**
   * Shows the map, or why there is none: several daemons, or one that does not
   * summarize rows.
   * @param {Kind} kind
   */
  async start(kind) {
    const shown = this.show(kind);
    const generation = this.generation;
    try {
      await shown;
    } catch (error) {
      if (this.signal.aborted || generation !== this.generation) return;
      this.canvas.hidden = true;
      this.tip.textContent = "";
      this.legend.replaceChildren();
      this.note.textContent = `No map: ${/** @type {Error} */ (error).message}`;
    }
  }

  /**
   * Requests the groups, and later those of new rows, until `hasEnded` is true.
   * @param {Kind} kind
   */
  async show(kind) {
    const generation = ++this.generation;
    this.kind = kind;
    this.grid = new Grid();
    this.cursor = null;
    this.reset();
    let next = 0;
    for (;;) {
      const part = await callPatiently("page.groups", {
        comparison: this.comparison, first_row: next, group_by: ["OP", kind === "op" ? "TOKEN" : "RANK"],
      }, this.signal, (problem) => {
        if (generation === this.generation) this.note.textContent = problem;
      });
      if (generation !== this.generation || this.signal.aborted) return;
      this.canvas.hidden = false;
      if (part.groups.length) this.take(part);
      next = part.next_row;
      const isComplete = next >= part.row_count;
      this.note.textContent = isComplete ? (this.grid.isCut ? "not all fit" : "")
          : `${countText(next)} of ${countText(part.row_count)} rows`;
      if (isComplete && part.has_ended) return;
      if (isComplete) await sleep(POLL_MS);
    }
  }

  refresh() {
    this.pictures.clear();
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

  drawNow() {
    const { canvas, grid } = this;
    const scale = devicePixelRatio || 1;
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
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
      const x = this.grid.columnOf.get(this.kind === "op" ? toNumber(this.first.token) : this.first.rank);
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
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.textAlign = "right";
    const everyLine = Math.max(1, Math.ceil(MIN_LABEL_PX / box.cellHeight));
    const chars = box.left < 120 ? 12 : LABEL_CHARS;
    for (let y = Math.ceil(this.top / everyLine) * everyLine; y < grid.lines.length; y += everyLine) {
      const at = box.top + (y + 0.5 - this.top) * box.cellHeight;
      if (at > box.top + box.height) break;
      const name = grid.lines[y];
      g.fillText(name.length > chars ? `\u2026${name.slice(1 - chars)}` : name, box.left - 6, at, box.left - 8);
    }
    g.textAlign = "center";
    const everyColumn = Math.max(1, Math.ceil(44 / box.cellWidth));
    for (let x = Math.ceil(this.left / everyColumn) * everyColumn; x < grid.columns.length; x += everyColumn) {
      const at = box.left + (x + 0.5 - this.left) * box.cellWidth;
      if (at > box.left + box.width) break;
      g.fillText(String(grid.columns[x]), at, bottom + 10);
    }
    g.fillText(this.kind === "op" ? "token" : "rank", Math.max((box.left + right) / 2, box.left + 16), bottom + 25);
  }

  drawLegend() {
    const { pass, fail, unmatched, skipped } = palette();
    /** @param {string} background @param {string} text @param {boolean} [isRamp] */
    const key = (background, text, isRamp) => {
      const mark = h("i", { class: isRamp && "ramp" });
      mark.style.background = background;
      return h("span", {}, mark, text);
    };
    const ramp = (/** @type {number[][]} */ [a, b]) => `linear-gradient(90deg, ${css(a)}, ${css(b)})`;
    const first = h("i");
    first.style.border = `2px solid ${ink("--mark")}`;
    this.legend.replaceChildren(
      key(ramp(pass), "passes, far from its bound to at it", true),
      key(ramp(fail), `fails, at its bound to ${shareText(FAIL_SHARE_MAX)} of it`, true),
      key(css(unmatched), "unmatched"), key(css(skipped), "skipped"),
      this.first ? h("span", {}, first, "first divergence") : "");
  }
}
