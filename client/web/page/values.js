// SPDX-License-Identifier: Apache-2.0
// The elements of a row: the error against the value, and two dimensions of both
// tensors as pictures. The server reduces them, so their size does not matter.
import { ApiError, call } from "./api.js";
import { dim, h, replaceIn, svg } from "./dom.js";
import { countText, numberText, toNumber } from "./format.js";

// Larger tensors are read only if the user wants to see them.
const AUTO_ELEMENTS_MAX = 2_000_000;

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [480, 300, 62, 474, 8, 262];

/** Lightness and blue to yellow: readable without seeing red and green. */
const VALUE_RAMP = [[0, 32, 77], [66, 78, 108], [124, 123, 120], [188, 174, 108], [255, 234, 70]];
const DIFFERENCE_RAMP = [[33, 102, 172], [146, 197, 222], [247, 247, 247], [244, 165, 130], [178, 24, 43]];
const NAN_COLOR = [214, 0, 214];

/** @param {number[][]} ramp @param {number} part 0 to 1 */
function colorAt(ramp, part) {
  const at = Math.min(Math.max(part, 0), 1) * (ramp.length - 1);
  const i = Math.min(Math.floor(at), ramp.length - 2);
  return ramp[i].map((a, k) => Math.round(a + (ramp[i + 1][k] - a) * (at - i)));
}

/** @param {number} exponent */
const powerText = (exponent) => {
  const value = 2 ** exponent;
  return value < 1e-3 || value >= 1e5 ? value.toExponential(0) : numberText(Number(value.toPrecision(2)));
};

/**
 * The number of elements by magnitude and by error, both in powers of two.
 * @param {any} density
 */
function densityChart(density) {
  const cells = /** @type {[number, number, number][]} */ (density.cells);
  const wide = Math.max(1, ...cells.map(([x]) => x)) + 1;
  const high = Math.max(1, ...cells.map(([, y]) => y)) + 1;
  const top = Math.max(1, ...cells.map(([, , count]) => count));
  const [w, t] = [(RIGHT - LEFT) / wide, (BOTTOM - TOP) / high];
  const x = (/** @type {number} */ cell) => LEFT + cell * w;
  const y = (/** @type {number} */ cell) => BOTTOM - cell * t;
  const shapes = cells.map(([cx, cy, count]) => svg("rect", {
    class: "cell", x: x(cx).toFixed(1), y: y(cy + 1).toFixed(1), width: Math.max(w - 0.5, 1).toFixed(1),
    height: Math.max(t - 0.5, 1).toFixed(1),
    "fill-opacity": (0.15 + 0.85 * Math.log1p(count) / Math.log1p(top)).toFixed(2),
  }, svg("title", {}, `${countText(count)} element${count === 1 ? "" : "s"}`)));
  // Axes without a magnitude have no numbers.
  const [hasX, hasY] = [cells.some(([cx]) => cx > 0), cells.some(([, cy]) => cy > 0)];
  // Lines of equal relative error.
  const [x0, x1] = [density.x_exponent, density.x_exponent + (wide - 1) * density.x_step];
  const [y0, y1] = [density.y_exponent, density.y_exponent + (high - 1) * density.y_step];
  const px = (/** @type {number} */ e) => x(1 + (e - x0) / density.x_step);
  const py = (/** @type {number} */ e) => y(1 + (e - y0) / density.y_step);
  for (const [ratio, text] of /** @type {[number, string][]} */ ([[1, "100 %"], [1e-2, "1 %"], [1e-4, "0.01 %"], [1e-6, "1e-6"]])) {
    const shift = Math.log2(ratio);
    const [from, to] = [Math.max(x0, y0 - shift), Math.min(x1, y1 - shift)];
    if (!hasX || !hasY || from >= to) continue;
    shapes.push(svg("line", { class: "cursor", x1: px(from), y1: py(from + shift), x2: px(to), y2: py(to + shift) }),
        svg("text", { class: "halo", x: px(to) - 3, y: py(to + shift) + 12, "text-anchor": "end" }, text));
  }
  for (const [cell, text] of /** @type {[number, string][]} */ ([
    [0.5, "0"], ...hasX ? [[1, powerText(x0)], [wide, powerText(x1)]] : []])) {
    shapes.push(svg("text", { x: x(cell), y: BOTTOM + 14, "text-anchor": cell === wide ? "end" : cell === 1 ? "start" : "middle" }, text));
  }
  for (const [cell, text] of /** @type {[number, string][]} */ (
      [[0.5, "equal"], ...hasY ? [[1, powerText(y0)], [high, powerText(y1)]] : []])) {
    shapes.push(svg("text", { x: LEFT - 5, y: y(cell) + (cell === high ? 9 : cell === 1 ? -5 : 4), "text-anchor": "end" }, text));
  }
  shapes.push(svg("text", { x: (LEFT + RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "magnitude of the golden value"),
      svg("text", { x: 12, y: (TOP + BOTTOM) / 2, "text-anchor": "middle",
        transform: `rotate(-90 12 ${(TOP + BOTTOM) / 2})` }, "difference"));
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
        "aria-label": `Difference against magnitude. ${densityText(density)}` }, ...shapes);
}

/** @param {any} density */
function densityText(density) {
  /** @type {number[][]} */
  const cells = density.cells;
  const equal = cells.reduce((sum, [, y, count]) => sum + (y === 0 ? count : 0), 0);
  const differ = density.element_count - density.non_finite_count - equal;
  return `${countText(density.element_count)} elements${density.is_sample ? " of a sample" : ""}: ` +
      `${countText(equal)} equal, ${countText(differ)} differ` +
      (density.non_finite_count ? `, ${countText(density.non_finite_count)} with NaN or infinities` : "") + ".";
}

/**
 * Fields for the position in all dimensions except some.
 * @param {number[]} shape
 * @param {number[]} at
 * @param {number[]} skipped
 * @param {(at: number[]) => void} onChange
 */
export function positionFields(shape, at, skipped, onChange) {
  return shape.flatMap((extent, dim) => skipped.includes(dim) || extent === 1 ? [] : [
    h("label", {}, `dim ${dim} `, h("input", {
      type: "number", min: 0, max: extent - 1, value: at[dim],
      onchange: (event) => {
        const value = Math.trunc(Number(event.target.value));
        onChange(at.map((one, i) => i === dim ? Math.min(Math.max(value || 0, 0), extent - 1) : one));
      },
    }), ` of ${countText(extent)}`)]);
}

/** The size of a difference: NaN is the largest one. */
const sizeOf = (/** @type {number} */ difference) => Number.isNaN(difference) ? Infinity : Math.abs(difference);

const clamp = (/** @type {number} */ i, /** @type {number} */ count) => Math.min(Math.max(i, 0), count - 1);

/** Three pictures of the same cells, with one cursor. */
class Pictures {
  /** @param {any} slice @param {any} largest @param {string} largestText */
  constructor(slice, largest, largestText) {
    this.slice = slice;
    this.largestText = largestText;
    this.golden = slice.golden?.map(toNumber);
    this.target = slice.target?.map(toNumber);
    this.difference = slice.difference?.map(toNumber);
    this.marked = this.cellOf(largest);
    this.cursor = this.marked ?? 0;
    this.tip = h("p", { class: "dim tip", role: "status" });
    /** @type {SVGElement[]} */
    this.frames = [];
    const values = [this.golden, this.target].flatMap((side) => side || []).filter(Number.isFinite);
    const low = values.reduce((a, b) => Math.min(a, b), Infinity);
    const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
    // Halves, since the difference of two numbers may be too large for a number.
    const part = (/** @type {number} */ v) => low === high ? 0.5 : (v / 2 - low / 2) / (high / 2 - low / 2);
    const scale = values.length ? `${numberText(low)} to ${numberText(high)}` : "no finite values";
    const parts = [];
    for (const [name, side] of [["golden", this.golden], ["target", this.target]]) {
      if (side) parts.push(this.picture(name, side, VALUE_RAMP, part, scale));
    }
    if (this.difference) {
      const finite = this.difference.filter(Number.isFinite);
      const most = finite.reduce((/** @type {number} */ a, /** @type {number} */ b) => Math.max(a, Math.abs(b)), 0);
      parts.push(this.picture("difference", this.difference, DIFFERENCE_RAMP,
        (v) => most === 0 ? 0.5 : 0.5 + v / most / 2, finite.length ? `\u00b1${numberText(most)}` : "no finite values"));
    }
    this.group = h("div", {
      class: "pictures", tabindex: "0", role: "application",
      "aria-label": "Values. Arrow keys move over the cells, and their values are read.",
      onkeydown: (event) => this.onKey(event),
      onpointermove: (event) => this.onPoint(event),
    }, ...parts);
    this.element = h("div", {}, this.group, this.tip);
    this.point(this.cursor);
  }

  /** @param {any} largest @returns {number | undefined} The cell, if it is in this slice. */
  cellOf(largest) {
    const { dims, at, columns, line_step: lineStep, column_step: columnStep } = this.slice;
    if (!largest || largest.difference === 0) return undefined;
    // A sample may lack a worse element.
    const most = sizeOf(toNumber(largest.difference));
    if (this.difference?.some((/** @type {number} */ one) => sizeOf(one) > most)) return undefined;
    if (largest.at.some((/** @type {number} */ p, /** @type {number} */ dim) => !dims.includes(dim) && p !== at[dim])) return undefined;
    const line = dims[0] < 0 ? 0 : Math.floor(largest.at[dims[0]] / lineStep);
    const column = dims[1] < 0 ? 0 : Math.floor(largest.at[dims[1]] / columnStep);
    return line * columns + column;
  }

  /**
   * @param {string} name
   * @param {number[]} values
   * @param {number[][]} ramp
   * @param {(value: number) => number} part
   * @param {string} scale
   */
  picture(name, values, ramp, part, scale) {
    const { lines, columns } = this.slice;
    const canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { width: columns, height: lines, "aria-hidden": "true" }));
    const image = new ImageData(columns, lines);
    values.forEach((value, i) => {
      const color = Number.isNaN(value) ? NAN_COLOR : colorAt(ramp, Number.isFinite(value) ? part(value) : value > 0 ? 1 : 0);
      image.data.set([...color, 255], i * 4);
    });
    /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")).putImageData(image, 0, 0);
    const frame = (/** @type {string} */ kind, /** @type {number} */ cell) => svg("rect", {
      class: kind, x: cell % columns, y: Math.floor(cell / columns), width: 1, height: 1 });
    const cursor = frame("here", this.cursor);
    this.frames.push(cursor);
    const box = h("div", { class: "picture" }, canvas,
      svg("svg", { viewBox: `0 0 ${columns} ${lines}`, preserveAspectRatio: "none", "aria-hidden": "true" },
          this.marked === undefined ? null : frame("mark", this.marked), cursor));
    box.style.aspectRatio = `${columns} / ${lines}`;
    const ramped = h("i", { class: "ramp" });
    ramped.style.background = `linear-gradient(90deg, ${ramp.map((rgb) => `rgb(${rgb})`).join()})`;
    return h("figure", {}, h("figcaption", {}, name, " ", h("span", { class: "dim legend" }, ramped, scale)), box);
  }

  /** @param {number} cell */
  point(cell) {
    const { dims, at, columns, line_step: lineStep, column_step: columnStep } = this.slice;
    this.cursor = cell;
    const [line, column] = [Math.floor(this.cursor / columns), this.cursor % columns];
    for (const frame of this.frames) {
      frame.setAttribute("x", String(column));
      frame.setAttribute("y", String(line));
    }
    const range = (/** @type {number} */ i, /** @type {number} */ step, /** @type {number} */ extent) =>
        step === 1 ? String(i) : `${i * step}\u2013${Math.min((i + 1) * step, extent) - 1}`;
    const place = at.map((/** @type {number} */ p, /** @type {number} */ dim) =>
        dim === dims[0] ? range(line, lineStep, this.slice.extents[0])
            : dim === dims[1] ? range(column, columnStep, this.slice.extents[1]) : String(p));
    const [g, t, d] = [this.golden, this.target, this.difference].map((side) => side?.[cell]);
    // Digits that distinguish both numbers.
    const text = g !== t && numberText(g) === numberText(t) ? String : numberText;
    this.tip.textContent = `[${place.join(", ")}]` + (cell === this.marked ? `, ${this.largestText}` : "") + ": " +
        [g === undefined ? "" : `golden ${text(g)}`, t === undefined ? "" : `target ${text(t)}`,
         d === undefined ? "" : `difference ${numberText(d)}`].filter((one) => one).join(", ");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { lines, columns } = this.slice;
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.point(clamp(Math.floor(this.cursor / columns) + step[0], lines) * columns +
        clamp(this.cursor % columns + step[1], columns));
  }

  /** @param {any} event */
  onPoint(event) {
    const box = event.target.closest(".picture");
    if (!box) return;
    const { left, top, width, height } = box.getBoundingClientRect();
    const { lines, columns } = this.slice;
    const at = (/** @type {number} */ part, /** @type {number} */ count) => clamp(Math.floor(part * count), count);
    this.point(at((event.clientY - top) / height, lines) * columns + at((event.clientX - left) / width, columns));
  }
}

const capital = (/** @type {string} */ text) => text[0].toUpperCase() + text.slice(1);

/** Everything about the elements of one row. */
class ValuesView {
  /** @param {string} comparison @param {number} row @param {import("./main.js").View} view */
  constructor(comparison, row, view) {
    this.request = { comparison, row };
    this.view = view;
    /** @type {any} */
    this.largest = null;
    this.largestText = "";
    this.density = h("div");
    this.slice = h("div");
    this.problem = h("p", { class: "problem", role: "alert" });
    this.generation = 0;
    this.element = h("div", {}, this.problem, this.density, this.slice);
  }

  /** @param {Record<string, any>} wanted */
  async load(wanted) {
    const mine = ++this.generation;
    try {
      const page = await call("page.values", { ...this.request, ...wanted }, this.view.signal);
      if (mine !== this.generation || this.view.signal.aborted) return;
      this.problem.textContent = "";
      if (!wanted.only_slice) this.showDensity(page);
      this.showSlice(page);
    } catch (error) {
      if (mine !== this.generation || this.view.signal.aborted) return;
      // Several daemons are not a problem.
      this.problem.className = error instanceof ApiError && error.status === 501 ? "dim" : "problem";
      this.problem.textContent = /** @type {Error} */ (error).message;
    }
  }

  /** @param {any} page */
  showDensity(page) {
    this.largest = page.largest;
    this.largestText = `the largest difference${page.density?.is_sample ? " of the sample" : ""}`;
    if (!page.density) {
      this.density.replaceChildren(dim(`No errors are shown: ${page.note}.`));
      return;
    }
    this.density.replaceChildren(
      page.density.cells.length ? h("figure", {}, densityChart(page.density)) : "",
      dim(densityText(page.density), page.largest.difference === 0 ? ""
          : ` ${capital(this.largestText)}: ${numberText(page.largest.difference)} at [${page.largest.at.join(", ")}]: ` +
            `golden ${numberText(page.largest.golden)}, target ${numberText(page.largest.target)}.`));
  }

  /** @param {any} page */
  showSlice(page) {
    const { shape, dims, at, slice } = page;
    if (!dims) return this.slice.replaceChildren();
    const reload = (/** @type {number[]} */ newDims, /** @type {number[]} */ newAt) => {
      this.view.keepQuery(new URLSearchParams({ dims: newDims.join(), at: newAt.join() }));
      this.load({ dims: newDims, at: newAt, only_slice: true });
    };
    const choose = (/** @type {number} */ which, /** @type {string} */ label) => h("label", {}, label, " ", h("select", {
      onchange: (event) => {
        const dim = Number(event.target.value);
        const next = [...dims];
        if (dim === dims[1 - which]) next[1 - which] = dims[which];
        next[which] = dim;
        reload(next, at);
      },
    }, ...shape.map((/** @type {number} */ extent, /** @type {number} */ dim) =>
        h("option", { value: dim, selected: dim === dims[which] }, `dim ${dim} (${countText(extent)})`))));
    const note = !slice ? `No picture: ${page.slice_note}.` : slice.line_step * slice.column_step === 1 ? ""
        : `A cell is the element that differs most among ${slice.line_step} \u00d7 ${slice.column_step}.`;
    const extents = dims.map((/** @type {number} */ dim) => shape[dim] ?? 1);
    replaceIn(this.slice,
      shape.length < 2 ? "" : h("div", { class: "bar" }, choose(0, "lines"), choose(1, "columns"),
        ...positionFields(shape, at, dims, (next) => reload(dims, next)),
        this.largest && this.largest.difference !== 0 ? h("button", { type: "button", onclick: () => {
          this.view.keepQuery(new URLSearchParams());
          this.load({ at: this.largest.at, only_slice: true });
        } }, capital(this.largestText.slice(4))) : ""),
      slice ? new Pictures({ ...slice, dims, at, extents }, this.largest, this.largestText).element : "", note ? dim(note) : "");
  }
}

/**
 * Numbers of the address; undefined if there are none, or they do not fit.
 * @param {string | null} text
 * @param {number} count
 * @param {(number: number, i: number, all: number[]) => boolean} fits
 */
function numbersOf(text, count, fits) {
  const numbers = /^\d+(,\d+)*$/.test(text || "") ? String(text).split(",").map(Number) : [];
  return count > 0 && numbers.length === count && numbers.every(fits) ? numbers : undefined;
}

/**
 * @param {string} comparison
 * @param {any} page An answer of page.row.
 * @param {import("./main.js").View} view
 */
export function valuesSection(comparison, page, view) {
  const { row, message } = page;
  const shape = (message.golden || message.target)?.shape || [];
  const extents = shape.map(toNumber);
  const count = extents.reduce((/** @type {number} */ a, /** @type {number} */ b) => a * b, 1);
  const values = new ValuesView(comparison, row.row, view);
  const load = () => values.load({
    dims: numbersOf(view.query.get("dims"), 2, (dim, i, all) => dim < extents.length && all.indexOf(dim) === i),
    at: numbersOf(view.query.get("at"), extents.length, (place, i) => place < extents[i]),
  });
  const button = h("button", { type: "button", onclick: () => { button.remove(); load(); } },
        `Show ${countText(count)} elements`);
  if (count <= AUTO_ELEMENTS_MAX) load();
  return h("section", { class: "values" }, h("h2", {}, "Error against value"),
      count <= AUTO_ELEMENTS_MAX ? null : button, values.element);
}
