// SPDX-License-Identifier: Apache-2.0
// The elements of a row: the error against the value, and two dimensions of both
// tensors as pictures. The server reduces them, so their size does not matter.
import { ApiError, call } from "./api.js";
import { h, svg } from "./dom.js";
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

/** As the server does: two NaN and equal infinities do not differ. */
export const differenceOf = (/** @type {number} */ golden, /** @type {number} */ target) =>
    Object.is(golden, target) || golden === target ? 0 : target - golden;

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
  // Lines of equal relative error.
  const [x0, x1] = [density.x_exponent, density.x_exponent + (wide - 1) * density.x_step];
  const [y0, y1] = [density.y_exponent, density.y_exponent + (high - 1) * density.y_step];
  const px = (/** @type {number} */ e) => x(1 + (e - x0) / density.x_step);
  const py = (/** @type {number} */ e) => y(1 + (e - y0) / density.y_step);
  for (const [ratio, text] of /** @type {[number, string][]} */ ([[1, "100 %"], [1e-2, "1 %"], [1e-4, "0.01 %"], [1e-6, "1e-6"]])) {
    const shift = Math.log2(ratio);
    const [from, to] = [Math.max(x0, y0 - shift), Math.min(x1, y1 - shift)];
    if (from >= to) continue;
    shapes.push(svg("line", { class: "cursor", x1: px(from), y1: py(from + shift), x2: px(to), y2: py(to + shift) }),
                svg("text", { class: "halo", x: px(to) - 3, y: py(to + shift) + 12, "text-anchor": "end" }, text));
  }
  for (const [cell, text] of /** @type {[number, string][]} */ ([
    [0.5, "0"], [1, powerText(x0)], [wide, powerText(x1)]])) {
    shapes.push(svg("text", { x: x(cell), y: BOTTOM + 14, "text-anchor": cell === wide ? "end" : cell === 1 ? "start" : "middle" }, text));
  }
  for (const [cell, text] of /** @type {[number, string][]} */ ([[0.5, "equal"], [1, powerText(y0)], [high, powerText(y1)]])) {
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
  const equal = density.cells.filter((/** @type {number[]} */ cell) => cell[1] === 0)
      .reduce((/** @type {number} */ sum, /** @type {number[]} */ cell) => sum + cell[2], 0);
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
      onchange: (/** @type {Event} */ event) => {
        const value = Math.trunc(Number(/** @type {HTMLInputElement} */ (event.target).value));
        onChange(at.map((one, i) => i === dim ? Math.min(Math.max(value || 0, 0), extent - 1) : one));
      },
    }), ` of ${countText(extent)}`)]);
}

/** Three pictures of the same cells, with one cursor. */
class Pictures {
  /** @param {any} slice @param {any} largest */
  constructor(slice, largest) {
    this.slice = slice;
    this.golden = slice.golden?.map(toNumber);
    this.target = slice.target?.map(toNumber);
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
    if (this.golden && this.target) {
      const differences = this.golden.map((/** @type {number} */ g, /** @type {number} */ i) => differenceOf(g, this.target[i]));
      const finite = differences.filter(Number.isFinite);
      const most = finite.reduce((/** @type {number} */ a, /** @type {number} */ b) => Math.max(a, Math.abs(b)), 0);
      parts.push(this.picture("difference", differences, DIFFERENCE_RAMP,
                              (v) => most === 0 ? 0.5 : 0.5 + v / most / 2, finite.length ? `\u00b1${numberText(most)}` : "no finite values"));
    }
    this.group = h("div", {
      class: "pictures", tabindex: "0", role: "application",
      "aria-label": "Values. Arrow keys move over the cells, and their values are read.",
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.onKey(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.onPoint(event),
    }, ...parts);
    this.element = h("div", {}, this.group, this.tip);
    this.point(this.cursor);
  }

  /** @param {any} largest @returns {number | undefined} The cell, if it is in this slice. */
  cellOf(largest) {
    const { dims, at, columns, line_step: lineStep, column_step: columnStep } = this.slice;
    if (!largest || largest.difference === 0) return undefined;
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
    const { dims, at, lines, columns, line_step: lineStep, column_step: columnStep } = this.slice;
    this.cursor = Math.min(Math.max(cell, 0), lines * columns - 1);
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
    const [g, t] = [this.golden?.[this.cursor], this.target?.[this.cursor]];
    this.tip.textContent = `[${place.join(", ")}]` + (this.cursor === this.marked ? ", the largest difference" : "") + ": " +
        [g === undefined ? "" : `golden ${numberText(g)}`, t === undefined ? "" : `target ${numberText(t)}`,
         g === undefined || t === undefined ? "" : `difference ${numberText(differenceOf(g, t))}`].filter((text) => text).join(", ");
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const { columns } = this.slice;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.point(this.cursor + step);
  }

  /** @param {PointerEvent} event */
  onPoint(event) {
    const box = /** @type {Element} */ (event.target).closest(".picture");
    if (!box) return;
    const { left, top, width, height } = box.getBoundingClientRect();
    const { lines, columns } = this.slice;
    const at = (/** @type {number} */ part, /** @type {number} */ count) => Math.min(Math.max(Math.floor(part * count), 0), count - 1);
    this.point(at((event.clientY - top) / height, lines) * columns + at((event.clientX - left) / width, columns));
  }
}

/** Everything about the elements of one row. */
class ValuesView {
  /** @param {string} comparison @param {number} row @param {import("./main.js").View} view */
  constructor(comparison, row, view) {
    this.request = { comparison, row };
    this.view = view;
    /** @type {any} */
    this.largest = null;
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
    if (!page.density) {
      this.density.replaceChildren(h("p", { class: "dim" }, `No errors are shown: ${page.note}.`));
      return;
    }
    this.density.replaceChildren(
      page.density.cells.length ? h("figure", {}, densityChart(page.density)) : "",
      h("p", { class: "dim" }, densityText(page.density), page.largest.difference === 0 ? ""
          : ` Largest difference ${numberText(page.largest.difference)} at [${page.largest.at.join(", ")}]: ` +
            `golden ${numberText(page.largest.golden)}, target ${numberText(page.largest.target)}.`));
  }

  /** @param {any} page */
  showSlice(page) {
    if (!page.slice) {
      this.slice.replaceChildren(page.slice_note ? h("p", { class: "dim" }, `No picture: ${page.slice_note}.`) : "");
      return;
    }
    const { shape } = page;
    const { dims, at, line_step: lineStep, column_step: columnStep } = page.slice;
    page.slice.extents = dims.map((/** @type {number} */ dim) => shape[dim] ?? 1);
    const reload = (/** @type {number[]} */ newDims, /** @type {number[]} */ newAt) => {
      this.view.keepQuery(new URLSearchParams({ dims: newDims.join(), at: newAt.join() }));
      this.load({ dims: newDims, at: newAt, only_slice: true });
    };
    const choose = (/** @type {number} */ which, /** @type {string} */ label) => h("label", {}, label, " ", h("select", {
      onchange: (/** @type {Event} */ event) => {
        const dim = Number(/** @type {HTMLSelectElement} */ (event.target).value);
        const next = [...dims];
        if (dim === dims[1 - which]) next[1 - which] = dims[which];
        next[which] = dim;
        reload(next, at);
      },
    }, ...shape.map((/** @type {number} */ extent, /** @type {number} */ dim) =>
        h("option", { value: dim, selected: dim === dims[which] }, `dim ${dim} (${countText(extent)})`))));
    const note = lineStep * columnStep === 1 ? ""
        : `A cell is the element that differs most among ${lineStep} \u00d7 ${columnStep}.`;
    this.slice.replaceChildren(
      shape.length < 2 ? "" : h("div", { class: "bar" }, choose(0, "lines"), choose(1, "columns"),
        ...positionFields(shape, at, dims, (next) => reload(dims, next)),
        this.largest && this.largest.difference !== 0 ? h("button", { type: "button", onclick: () => {
          this.view.keepQuery(new URLSearchParams());
          this.load({ at: this.largest.at, only_slice: true });
        } }, "Largest difference") : ""),
      new Pictures(page.slice, this.largest).element, note ? h("p", { class: "dim" }, note) : "");
  }
}

/** @param {string | null} text */
const numbersOf = (text) => text && /^-?\d+(,\d+)*$/.test(text) ? text.split(",").map(Number) : undefined;

/**
 * @param {string} comparison
 * @param {any} page An answer of page.row.
 * @param {import("./main.js").View} view
 */
export function valuesSection(comparison, page, view) {
  const { row, message } = page;
  const shape = (message.golden || message.target)?.shape || [];
  const count = shape.reduce((/** @type {number} */ a, /** @type {any} */ b) => a * toNumber(b), 1);
  const values = new ValuesView(comparison, row.row, view);
  const load = () => values.load({ dims: numbersOf(view.query.get("dims")), at: numbersOf(view.query.get("at")) });
  const button = h("button", { type: "button", onclick: () => { button.remove(); load(); } },
                   `Show ${countText(count)} elements`);
  if (count <= AUTO_ELEMENTS_MAX) load();
  return h("section", { class: "values" }, h("h2", {}, "Error against value"),
           count <= AUTO_ELEMENTS_MAX ? null : button, values.element);
}
