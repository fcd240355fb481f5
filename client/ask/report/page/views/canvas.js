// SPDX-License-Identifier: Apache-2.0
// Drawing on a canvas.
import { h } from "./dom.js";

/**
 * The longest text of at most `width` pixels. It lacks the middle, since names of
 * ops differ at both ends.
 * @param {CanvasRenderingContext2D} g
 * @param {string} text
 * @param {number} width
 */
export function fit(g, text, width) {
  if (g.measureText(text).width <= width) return text;
  const cut = (/** @type {number} */ n) => `${text.slice(0, n)}\u2026${text.slice(text.length - n)}`;
  let [low, high] = [1, Math.min(Math.floor(text.length / 2), 99)];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (g.measureText(cut(middle)).width <= width) low = middle; else high = middle - 1;
  }
  return cut(low);
}

/**
 * A cross for what is not finite.
 * @param {CanvasRenderingContext2D} g
 * @param {number} x
 * @param {number} y
 * @param {number} size
 */
export function drawCross(g, x, y, size) {
  g.lineWidth = 1.75;
  g.beginPath();
  g.moveTo(x - size, y - size);
  g.lineTo(x + size, y + size);
  g.moveTo(x - size, y + size);
  g.lineTo(x + size, y - size);
  g.stroke();
}

/**
 * Gives a canvas as many pixels as its place on the screen has, and clears it.
 * @param {HTMLCanvasElement} canvas
 */
export function openCanvas(canvas) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  return { g, width, height, scale };
}

/**
 * An item of a legend.
 * @param {string} background
 * @param {string} text
 * @param {string} [look] A class.
 */
export function legendKey(background, text, look) {
  const mark = h("i", { class: look });
  mark.style.background = background;
  return h("span", {}, mark, text);
}
