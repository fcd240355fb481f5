// SPDX-License-Identifier: Apache-2.0
// The cells of a heat map, and their colors.

// A cell is a byte, so that the larger of two bytes is the worse of two cells.
export const NONE = 0;
export const SKIPPED = 1;
export const PASS_FIRST = 2;
const PASS_LAST = 120;
export const UNMATCHED = 124;
export const FAIL_FIRST = 128;
const FAIL_LAST = 255;
// The share of the bound at which the color of a failing cell is strongest.
export const FAIL_SHARE_MAX = 1e4;
// The share below which cells that pass have the same color.
const PASS_SHARE_MIN = 1e-4;

// Cells that one map holds; further tokens or ops are left out, and a note says
// so.
export const CELLS_MAX = 4_000_000;

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

export const isDark = matchMedia("(prefers-color-scheme: dark)");
export const palette = () => PALETTES[isDark.matches ? "dark" : "light"];

/** @param {number[]} a @param {number[]} b @param {number} part */
const mix = (a, b, part) => a.map((x, i) => Math.round(x + (b[i] - x) * part));

/** @param {number[]} rgb */
export const css = (rgb) => `rgb(${rgb.join()})`;

/**
 * The place of a share of a bound in a ramp, from 0 to 1.
 * @param {boolean} fails
 * @param {number} share
 */
function partOf(fails, share) {
  if (fails) return share < Infinity ? Math.log(Math.max(share, 1)) / Math.log(FAIL_SHARE_MAX) : 1;
  return share > 0 ? 1 - Math.log(Math.min(share, 1)) / Math.log(PASS_SHARE_MIN) : 0;
}

/**
 * @param {{fails: boolean, passes: boolean, isUnmatched: boolean, share: number}} group
 * @param {number} [part] The place in the ramp of the verdict, from 0 to 1.
 */
export function levelOf({ fails, passes, isUnmatched, share }, part = partOf(fails, share)) {
  const among = (/** @type {number} */ first, /** @type {number} */ last) =>
      first + Math.round(Math.min(Math.max(part, 0), 1) * (last - first));
  if (fails) return among(FAIL_FIRST, FAIL_LAST);
  if (isUnmatched) return UNMATCHED;
  return passes ? among(PASS_FIRST, PASS_LAST) : SKIPPED;
}

/**
 * The verdict of a level; the larger the worse.
 * @param {number} level
 */
const rankOf = (level) => level >= FAIL_FIRST ? 4 : level === UNMATCHED ? 3 : level >= PASS_FIRST ? 2 : level;

/** @param {number} level */
export function colorOf(level) {
  const { pass, fail, unmatched, skipped, none } = palette();
  if (level >= FAIL_FIRST) return mix(fail[0], fail[1], (level - FAIL_FIRST) / (FAIL_LAST - FAIL_FIRST));
  if (level === UNMATCHED) return unmatched;
  if (level >= PASS_FIRST) return mix(pass[0], pass[1], (level - PASS_FIRST) / (PASS_LAST - PASS_FIRST));
  return level === SKIPPED ? skipped : none;
}

/** @param {number} least @returns {number} A power of two. */
const roomFor = (least) => 2 ** Math.ceil(Math.log2(Math.max(least, 64)));

/** The cells, which grow in both directions. */
export class Grid {
  /**
   * @param {number} wide Columns that are expected.
   * @param {number} high Lines that are expected.
   */
  constructor(wide = 0, high = 0) {
    /** @type {(string | number)[]} */
    this.columns = [];
    /** @type {string[]} */
    this.lines = [];
    /** @type {Map<string | number, number>} */
    this.columnOf = new Map();
    /** @type {Map<string, number>} */
    this.lineOf = new Map();
    this.stride = roomFor(wide);
    const size = this.stride * roomFor(high);
    this.levels = new Uint8Array(size);
    this.rows = new Int32Array(size).fill(-1);
    // Shares of the bound, or errors: levels of large ones are equal.
    this.shares = new Float32Array(size).fill(NaN);
    /** @type {Map<string, [number, number]>} Cells that contain a NaN or an infinity. */
    this.odd = new Map();
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
    const stride = roomFor(Math.max(wide, this.stride));
    const height = roomFor(Math.max(high, this.levels.length / this.stride));
    /** @template {Uint8Array | Int32Array | Float32Array} T @param {T} from @param {T} to */
    const copied = (from, to) => {
      for (let y = 0; (y + 1) * this.stride <= from.length; ++y) {
        to.set(from.subarray(y * this.stride, (y + 1) * this.stride), y * stride);
      }
      return to;
    };
    this.levels = copied(this.levels, new Uint8Array(stride * height));
    this.rows = copied(this.rows, new Int32Array(stride * height).fill(-1));
    this.shares = copied(this.shares, new Float32Array(stride * height).fill(NaN));
    this.stride = stride;
  }

  /** @param {string} line @param {string | number} column @param {number} level @param {number} row @param {number} share */
  put(line, column, level, row, share) {
    const i = this.place(line, column);
    if (i < 0) return;
    const more = rankOf(level) - rankOf(this.levels[i]);
    const isWorse = more > 0 || (more === 0 && (share > this.shares[i] || (Number.isNaN(this.shares[i]) && !Number.isNaN(share))));
    if (this.rows[i] >= 0 && !isWorse) return;
    this.levels[i] = level;
    this.rows[i] = row;
    this.shares[i] = share;
  }

  /**
   * Colors all cells again if the range of their errors has changed.
   * @param {import("./scale.js").Scale} scale
   */
  fit(scale) {
    const { levels, rows, shares } = this;
    const { low, high, isLinear } = scale;
    scale.span(shares);
    if (low === scale.low && high === scale.high && isLinear === scale.isLinear) return;
    for (let i = 0; i < levels.length; ++i) {
      if (rows[i] < 0) continue;
      const rank = rankOf(levels[i]);
      // A cell without a color passes.
      levels[i] = scale.levelOf({ fails: rank === 4, passes: rank === 2 || rank === 0, isUnmatched: rank === 3, share: shares[i] });
    }
  }

  /** @param {string} line @param {string | number} column */
  markOdd(line, column) {
    const [x, y] = [this.columnOf.get(column), this.lineOf.get(line)];
    if (x !== undefined && y !== undefined) this.odd.set(`${x} ${y}`, [x, y]);
  }

  /** @param {number} x @param {number} y */
  levelAt(x, y) { return this.levels[y * this.stride + x]; }

  /** @param {number} x @param {number} y */
  errorAt(x, y) { return this.shares[y * this.stride + x]; }

  /** @param {number} x @param {number} y */
  rowAt(x, y) { return this.rows[y * this.stride + x]; }
}

/**
 * Draws the grid, with `2 ** stepX` columns and `2 ** stepY` lines in each pixel.
 * A pixel is the worst of its cells, so that a single failing cell is visible in
 * a map of a million cells.
 * @param {Grid} grid
 * @param {number} stepX
 * @param {number} stepY
 */
export function pictureOf(grid, stepX, stepY) {
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
 * The layer of an op: the path up to its first number, such as
 * `model.layers.12`. An op without a number is a layer of its own.
 * @param {string} op
 */
export function layerOf(op) {
  const match = /^(?:.*?[._/])??\d+(?=[._/]|$)/.exec(op);
  return match ? match[0] : op;
}
