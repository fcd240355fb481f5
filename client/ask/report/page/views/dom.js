// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text is always set as text: names of ops, reasons and
// stacks are foreign, and may contain markup.

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {{[name: `on${string}`]: (event: any) => void, [name: string]: any}} Properties
 */

// In two parts: a report contains no address, which its tests and a reader can
// check by a search.
const SVG = "http:" + "//www.w3.org/2000/svg";

/** @param {Element} element @param {Properties} properties */
function setProperties(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/**
 * Creates an HTML element. A property `onclick` is a listener, any other one an
 * attribute.
 * @param {string} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {HTMLElement}
 */
export function h(tag, properties, ...children) {
  const element = document.createElement(tag);
  setProperties(element, properties || {});
  append(element, children);
  return element;
}

/** A paragraph that is less important. */
export const dim = (/** @type {Child[]} */ ...children) => h("p", { class: "dim" }, ...children);

/**
 * A box that scrolls by itself.
 * @param {string} label
 * @param {...Child} children
 */
export const scrolling = (label, ...children) =>
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);

/**
 * Creates an SVG element.
 * @param {string} tag
 * @param {Properties} [properties]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svg(tag, properties, ...children) {
  const element = /** @type {SVGElement} */ (document.createElementNS(SVG, tag));
  setProperties(element, properties || {});
  append(element, children);
  return element;
}

/**
 * Replaces the children of an element. The field at the position of the one that
 * has the focus gets it.
 * @param {Element} element
 * @param {...Child} children
 */
export function replaceIn(element, ...children) {
  const fields = () => /** @type {HTMLElement[]} */ ([...element.querySelectorAll("input, select, button")]);
  const at = fields().findIndex((field) => field === document.activeElement);
  element.replaceChildren();
  append(element, children);
  fields()[at]?.focus();
}

/** @param {Element} element @param {Child[]} children */
function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Returns the value of a custom property of the theme, such as `--fail`.
 * @param {string} name
 */
export function ink(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * Appends text in which numbers do not break at the end of a line.
 * @param {Element} element
 * @param {string} text
 */
export function putText(element, text) {
  for (const word of text.split(/(\s+)/)) {
    if (word.length <= 40 && /^[-+\d.,:;eE%x=<>/()[\]TZ\u2212]*\d[-+\d.,:;eE%x=<>/()[\]TZ]*$/.test(word)) {
      element.append(h("span", { class: "nowrap" }, word));
    } else if (word) {
      element.append(word);
    }
  }
  return element;
}

/**
 * @typedef {(row: number) => HTMLElement | null} LinkOf Creates a link to a row,
 *     without a text. Null for a row that is not shown.
 */

/**
 * A list of labels and texts. `[label, text, row]`: a row leads to its page.
 * @param {[string, string, number][]} facts
 * @param {LinkOf} linkOf
 */
export function factList(facts, linkOf) {
  const list = h("dl", { class: "facts" });
  let last = "";
  for (const [label, text, row] of facts) {
    list.append(h("dt", {}, label === last ? "" : label));
    last = label;
    const value = h("dd");
    const link = row >= 0 ? linkOf(row) : null;
    putText(link ? value.appendChild(link) : value, text);
    list.append(value);
  }
  return list;
}

/** @param {string} verdict PASS, FAIL, PARTIAL or - */
export function verdictMark(verdict) {
  return h("span", { class: `verdict ${verdict === "-" ? "none" : verdict}` },
      verdict === "-" ? "no result" : verdict);
}
