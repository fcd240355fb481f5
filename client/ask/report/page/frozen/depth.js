// SPDX-License-Identifier: Apache-2.0
// The error of every row against the depth of its op.
import { nice, ticksOf } from "./axis.js";
import { drawCross, openCanvas } from "./canvas.js";
import { h, ink } from "./dom.js";
import { numberText } from "./format.js";
import { OPS, ROWS } from "./frozen.js";
import { rowText } from "./map.js";
import { Tip } from "./tip.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */
/** @typedef {import("./measure.js").Measure} Measure */

const DEPTH_OF = new Map(OPS.map((op, i) => [op, i]));
// Errors below it are drawn at the lowest place if they are shares of a bound.
const SHARE_MIN = 1e-6;
// Where errors that are not on the scale are drawn.
const LANE_PX = 14;
const NEAR_PX = 8;
const LIMITS_MAX = 4;

const clamp = (/** @type {number} */ part) => Math.min(Math.max(part, 0), 1);

/**
 * The scale of the errors of a measure and its bounds.
 * @param {Measure} measure
 */
function scaleOf(measure) {
  const limits = measure.limits();
  let low = Math.min(measure.low, ...limits);
  let high = Math.max(measure.high, ...limits);
  if (measure.isShare()) low = Math.max(low, SHARE_MIN);
  const { isLinear } = measure;
  if (!isLinear && low <= high) {
    low = 10 ** Math.floor(Math.log10(low));
    high = 10 ** Math.ceil(Math.log10(high) + 1e-9);
  }
  const part = (/** @type {number} */ error) => !(low < high) ? 0.5
      : isLinear ? (error - low) / (high - low) : Math.log(error / low) / Math.log(high / low);
  return { low, high, limits, isEmpty: !(low <= high), part: (/** @type {number} */ error) => clamp(part(error)) };
}

/** @param {number} low @param {number} high @param {boolean} isLinear */
function errorTicks(low, high, isLinear) {
  if (isLinear) return ticksOf(low, high, 5.5);
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / 6));
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
}

export class DepthPlot {
  /** @param {AbortSignal} signal @param {Measure} measure @param {(row: FrozenRow) => void} onOpen */
  constructor(signal, measure, onOpen) {
    this.measure = measure;
    /** @type {[number, number, FrozenRow][]} */
    this.points = [];
    this.drawnWidth = this.drawnHeight = 0;
    this.tip = new Tip(signal);
    this.title = h("h2", { id: "depth" });
    this.legend = h("div", { class: "legend" });
    this.canvas = /** @type {HTMLCanvasElement} */ (h("canvas", {
      class: "heat depth", role: "img", "aria-labelledby": "depth",
      onpointermove: (event) => this.point(event), onpointerleave: () => this.tip.hide(),
      onclick: (event) => {
        const row = this.rowAt(event);
        if (row) onOpen(row);
      },
    }));
    this.element = h("section", { class: "map" }, h("div", { class: "bar" }, this.title), this.canvas, this.legend,
        this.tip.element);
    new ResizeObserver(() => requestAnimationFrame(() => this.drawIfResized())).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.show(this.measure), { signal });
  }

  /** @param {Measure} measure */
  show(measure) {
    this.measure = measure;
    this.title.textContent = `${measure.label()}, against depth`;
    const key = (/** @type {string} */ look, /** @type {string} */ text, mark = "") =>
        h("span", {}, h("i", { class: look }, mark), text);
    this.legend.replaceChildren(key("point passes", "passes"), key("point fails", "fails"),
        key("cross", "NaN or Inf", "\u00d7"), key("dash", "bound"));
    this.draw();
  }

  drawIfResized() {
    if (this.canvas.clientWidth !== this.drawnWidth || this.canvas.clientHeight !== this.drawnHeight) this.draw();
  }

  draw() {
    const { g, width, height } = openCanvas(this.canvas);
    [this.drawnWidth, this.drawnHeight] = [width, height];
    const scale = scaleOf(this.measure);
    const box = { left: 58, right: width - 10, top: 26, bottom: height - 52 };
    const y = (/** @type {number} */ error) => box.bottom - (box.bottom - box.top) * scale.part(error);
    this.drawAxes(g, box, scale, y);
    this.points = [];
    // Reading a color takes longer than drawing a point.
    const colors = { fail: ink("--bad"), pass: ink("--target"), mark: ink("--mark") };
    // Rows that fail are drawn last, so that they are on top.
    for (const fails of [false, true]) {
      for (const row of ROWS) {
        if (row.verdict === (fails ? "fail" : "pass")) this.drawRow(g, row, colors, box, y);
      }
    }
  }

  /**
   * @typedef {{left: number, right: number, top: number, bottom: number}} Box
   * @param {CanvasRenderingContext2D} g
   * @param {Box} box
   * @param {ReturnType<typeof scaleOf>} scale
   * @param {(error: number) => number} y
   */
  drawAxes(g, box, scale, y) {
    const { isLinear, measured } = this.measure;
    const line = (/** @type {number} */ at) => {
      g.beginPath();
      g.moveTo(box.left, at);
      g.lineTo(box.right, at);
      g.stroke();
    };
    g.fillStyle = ink("--dim");
    g.strokeStyle = ink("--line");
    g.lineWidth = 1;
    g.textAlign = "right";
    for (const tick of scale.isEmpty ? [] : errorTicks(scale.low, scale.high, isLinear)) {
      line(y(tick));
      g.fillText(numberText(isLinear && measured?.isHigherBetter ? -tick : Number(tick.toPrecision(3))), box.left - 5, y(tick));
    }
    if (!isLinear) g.fillText("0", box.left - 5, box.bottom + LANE_PX);
    g.fillText("NaN, Inf", box.left - 5, box.top - LANE_PX);
    g.strokeStyle = ink("--dim");
    g.setLineDash([5, 4]);
    for (const limit of scale.limits.slice(0, LIMITS_MAX)) line(y(limit));
    g.setLineDash([]);
    g.textAlign = "center";
    const step = nice(Math.max(1, Math.ceil(OPS.length * 40 / Math.max(box.right - box.left, 1))));
    for (let depth = 0; depth < OPS.length; depth += step) {
      g.fillText(String(depth), this.depthX(depth, box), box.bottom + LANE_PX + 12);
    }
    g.fillText("depth: ops in the order in which they end", (box.left + box.right) / 2, box.bottom + LANE_PX + 27,
        box.right);
  }

  /** @param {number} depth @param {Box} box */
  depthX(depth, { left, right }) {
    return left + 5 + (right - left - 10) * (OPS.length > 1 ? depth / (OPS.length - 1) : 0.5);
  }

  /**
   * @param {CanvasRenderingContext2D} g
   * @param {FrozenRow} row
   * @param {{fail: string, pass: string, mark: string}} colors
   * @param {Box} box
   * @param {(error: number) => number} y
   */
  drawRow(g, row, colors, box, y) {
    const { measure } = this;
    const fails = row.verdict === "fail";
    const error = measure.error(row);
    const isOdd = measure.isOdd(row);
    if (Number.isNaN(error) && !isOdd && !(measure.isShare() && fails)) return;
    const px = this.depthX(DEPTH_OF.get(row.op) ?? 0, box);
    const py = error === -Infinity ? box.bottom : !Number.isFinite(error) ? box.top - LANE_PX
        : !measure.isLinear && error <= 0 ? box.bottom + LANE_PX : y(error);
    this.points.push([px, py, row]);
    if (isOdd) {
      g.strokeStyle = fails ? colors.fail : colors.mark;
      drawCross(g, px, py, 3);
    } else {
      g.fillStyle = fails ? colors.fail : colors.pass;
      g.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
  }

  /** @param {MouseEvent} event @returns {FrozenRow | null} The row of the nearest point. */
  rowAt(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - bounds.left - this.canvas.clientLeft, event.clientY - bounds.top - this.canvas.clientTop];
    let [best, least] = [/** @type {FrozenRow | null} */ (null), NEAR_PX ** 2];
    for (const [px, py, row] of this.points) {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) [best, least] = [row, distance];
    }
    return best;
  }

  /** @param {MouseEvent} event */
  point(event) {
    const row = this.rowAt(event);
    if (row) this.tip.show(rowText(row, this.measure), event.clientX, event.clientY); else this.tip.hide();
  }
}
