// SPDX-License-Identifier: Apache-2.0
// The ops of both runs as a tree of modules. Lines of the tree exist only where the
// user has opened it.
import { h } from "./dom.js";
import { countText, exactWord, shareText } from "./format.js";

// Lines of one module that are added at a time.
const LINES = 300;
// Levels of the tree. What an op has below is part of its name.
const DEPTH_MAX = 32;
// Characters of a name in a line.
const NAME_MAX = 160;

/**
 * The rows of an op, or of all ops of a module.
 * @typedef {{pass: number, fail: number, unmatched: number, skipped: number,
 *     worst: number, row: number}} Counts Worst is NaN if no row has a share.
 */

/** @returns {Counts} */
export const noRows = () => ({ pass: 0, fail: 0, unmatched: 0, skipped: 0, worst: NaN, row: -1 });

/**
 * Adds the rows of a group: a failing row is worse than any other one.
 * @param {Counts} to
 * @param {Counts} from
 */
export function addCounts(to, from) {
  const rank = (/** @type {Counts} */ c) => (c.fail > 0 ? 2 : c.row >= 0 ? 1 : 0);
  const isWorse = to.row < 0 || rank(from) > rank(to) ||
      (rank(from) === rank(to) && (Number.isNaN(to.worst) ? !Number.isNaN(from.worst) : from.worst > to.worst));
  if (isWorse && from.row >= 0) [to.worst, to.row] = [from.worst, from.row];
  for (const name of /** @type {const} */ (["pass", "fail", "unmatched", "skipped"])) to[name] += from[name];
}

/** A module or an op. */
export class Module {
  /** @param {string} path */
  constructor(path) {
    this.path = path;
    /** @type {Map<string, Module>} */
    this.children = new Map();
    this.counts = noRows();
    // Whether an op has this name, and what separates it from its children.
    this.isOp = false;
    /** @type {Set<string>} */
    this.separators = new Set();
    this.lineCount = LINES;
  }

  /**
   * Adds the rows of an op below this module.
   * @param {string} op
   * @param {Counts} counts
   */
  add(op, counts) {
    /** @type {Module} */
    let node = this;
    addCounts(node.counts, counts);
    let begin = 0;
    let depth = 0;
    for (const match of op.matchAll(/[./]|$/g)) {
      const end = ++depth < DEPTH_MAX ? /** @type {number} */ (match.index) : op.length;
      if (begin > 0) node.separators.add(op[begin - 1]);
      // With its separator: `a.b` and `a/b` are different ops.
      const name = op.slice(Math.max(begin - 1, 0), end);
      let child = node.children.get(name);
      if (!child) node.children.set(name, child = new Module(op.slice(0, end)));
      addCounts(child.counts, counts);
      node = child;
      begin = end + 1;
      if (end === op.length) break;
    }
    node.isOp = true;
  }

  /** A module that has nothing but another module is shown together with it. */
  inner() {
    /** @type {Module} */
    let node = this;
    while (!node.isOp && node.children.size === 1) [node] = node.children.values();
    return node;
  }

  /**
   * Whether an op is this one, or one of this module.
   * @param {string} op
   */
  has(op) { return op === this.path ? this.isOp : op.startsWith(this.path) && this.separators.has(op[this.path.length]); }

  /** The words that search for its rows. */
  search() {
    return [...(this.isOp ? [exactWord(this.path)] : []),
        ...[...this.separators].map((one) => `${this.path}${one}*`.replace(/\s/g, "?"))].join(" ");
  }

  isLeaf() { return this.children.size === 0; }

  hasProblem() { return this.counts.fail + this.counts.unmatched > 0; }
}

/** @param {Counts} counts */
function countsText({ pass, fail, unmatched, skipped, worst }) {
  if (unmatched > 0 && pass + fail + skipped === 0) return "no partner in the other run";
  /** @type {[number, string][]} */
  const words = [[fail, "fail"], [unmatched, "unmatched"], [skipped, "skipped"]];
  const parts = words.filter(([count]) => count > 0).map(([count, word]) => `${countText(count)} ${word}`);
  if (parts.length === 0) parts.push(`${countText(pass)} pass`);
  if (!Number.isNaN(worst)) parts.push(`worst ${shareText(worst)} of bound`);
  return parts.join(", ");
}

/** @param {Counts} counts */
const wordOf = (counts) => counts.fail > 0 ? "fail" : counts.unmatched > 0 ? "unmatched"
    : counts.pass > 0 ? "pass" : "skipped";

export class ModuleTree {
  /** @param {(isMove: boolean) => void} onChange Called after the user has moved or filtered. */
  constructor(onChange) {
    this.onChange = onChange;
    this.root = new Module("");
    /** @type {Set<string>} */
    this.open = new Set();
    this.focused = "";
    // An op that is shown wherever it is among its neighbours.
    this.revealed = "";
    /** @type {WeakMap<Element, Module>} */
    this.nodeOf = new WeakMap();
    this.only = /** @type {HTMLInputElement} */ (h("input", {
      type: "checkbox",
      onchange: () => {
        this.onChange(false);
        this.draw();
      },
    }));
    this.filter = h("label", {}, this.only, " only modules that fail or have no partner");
    this.element = h("ul", { role: "tree", class: "tree", "aria-label": "Modules" });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("click", (event) => this.onClick(event));
  }

  /**
   * A link or a button without a text, which shows the rows of a module or an op.
   * @param {Module} _node
   * @returns {HTMLElement}
   */
  linkOf(_node) { return h("a"); }

  /**
   * Opens all modules that an op is in, and shows it even if it is after the
   * lines of its module that are shown.
   * @param {string} path
   */
  reveal(path) {
    for (const match of path.matchAll(/[./]|$/g)) this.open.add(path.slice(0, match.index));
    this.focused = this.revealed = path;
  }

  /** @param {Module} node Whether it is the revealed op, or a module of it. */
  isRevealed({ path }) {
    return this.revealed === path || (this.revealed.startsWith(path) && /[./]/.test(this.revealed[path.length]));
  }

  draw() {
    const hadFocus = this.element.contains(document.activeElement);
    this.element.replaceChildren(...this.lines(this.root, 1));
    const current = this.item(this.focused) || this.items()[0];
    if (!current) return;
    current.tabIndex = 0;
    if (hadFocus) current.focus({ preventScroll: true });
  }

  /** @param {Module} parent @param {number} level @returns {HTMLElement[]} */
  lines(parent, level) {
    const nodes = [...parent.children.values()].map((node) => node.inner())
        .filter((node) => !this.only.checked || node.hasProblem());
    const shown = nodes.filter((node, i) => i < parent.lineCount || this.isRevealed(node));
    const lines = shown.map((node, i) => {
      const isOpen = node.isLeaf() ? undefined : this.open.has(node.path);
      const name = (parent.path ? node.path.slice(parent.path.length + 1) : node.path) || "(no name)";
      const short = name.length > NAME_MAX ? `${name.slice(0, NAME_MAX / 2)}\u2026${name.slice(-NAME_MAX / 2)}` : name;
      const word = wordOf(node.counts);
      const link = this.linkOf(node);
      link.tabIndex = -1;
      link.append(node.isLeaf() ? "worst row" : "rows");
      const item = h("li", {
        role: "treeitem", tabindex: "-1", "aria-level": level, "aria-setsize": nodes.length,
        "aria-posinset": 1 + (i < parent.lineCount ? i : nodes.indexOf(node)),
        "aria-expanded": isOpen === undefined ? null : String(isOpen), "data-path": node.path,
        "aria-label": `${short}: ${countsText(node.counts)}`,
      }, h("div", { class: `node ${word}` },
          h("span", { class: "twist", "aria-hidden": "true" }, isOpen === undefined ? "" : isOpen ? "\u25be" : "\u25b8"),
          h("span", { class: "name", title: short === name ? null : name }, short),
          h("span", { class: `counts${word === "fail" ? " bad" : " dim"}` }, countsText(node.counts)), link));
      this.nodeOf.set(item, node);
      if (isOpen) item.append(h("ul", { role: "group" }, ...this.lines(node, level + 1)));
      return item;
    });
    if (shown.length < nodes.length) {
      lines.push(h("li", { role: "treeitem", tabindex: "-1", "aria-level": level, "data-more": parent.path },
        h("div", { class: "node dim" }, `${countText(nodes.length - shown.length)} more`)));
      this.nodeOf.set(lines[lines.length - 1], parent);
    }
    return lines;
  }

  /** @returns {HTMLElement[]} */
  items() { return [...this.element.querySelectorAll("[role=treeitem]")].map((e) => /** @type {HTMLElement} */ (e)); }

  /** @param {string} path */
  item(path) { return this.items().find((item) => item.dataset.path === path); }

  /** @param {HTMLElement | undefined} item */
  focus(item) {
    if (!item) return;
    for (const other of this.element.querySelectorAll("[tabindex='0']")) other.setAttribute("tabindex", "-1");
    item.tabIndex = 0;
    item.focus();
    if (item.dataset.path === undefined) return;
    this.focused = item.dataset.path;
    this.onChange(true);
  }

  /** @param {HTMLElement} item @param {boolean} isOpen */
  toggle(item, isOpen) {
    const node = /** @type {Module} */ (this.nodeOf.get(item));
    if (item.dataset.more !== undefined) {
      const position = this.items().indexOf(item);
      node.lineCount += LINES;
      this.draw();
      return this.focus(this.items()[position]);
    }
    if (node.children.size === 0) return;
    if (isOpen) this.open.add(node.path); else this.open.delete(node.path);
    this.focused = node.path;
    this.draw();
    this.focus(this.item(node.path));
  }

  /** @param {any} event */
  onClick(event) {
    const item = event.target.closest("[role=treeitem]");
    if (!item || event.target.closest("a, button")) return;
    this.focus(item);
    this.toggle(item, item.getAttribute("aria-expanded") !== "true");
  }

  /** @param {any} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = event.target.closest("[role=treeitem]");
    if (!item) return;
    const items = this.items();
    const at = items.indexOf(item);
    const expanded = item.getAttribute("aria-expanded");
    switch (event.key) {
      case "ArrowDown": this.focus(items[at + 1]); break;
      case "ArrowUp": this.focus(items[at - 1]); break;
      case "Home": this.focus(items[0]); break;
      case "End": this.focus(items[items.length - 1]); break;
      case "ArrowRight":
        if (expanded === "false") this.toggle(item, true);
        else if (expanded === "true") this.focus(items[at + 1]);
        break;
      case "ArrowLeft":
        if (expanded === "true") this.toggle(item, false);
        else this.focus(item.parentElement.closest("[role=treeitem]"));
        break;
      case " ": this.toggle(item, expanded !== "true"); break;
      case "Enter":
        if (item.dataset.more !== undefined) this.toggle(item, true);
        else item.querySelector("a, button")?.click();
        break;
      default: return;
    }
    event.preventDefault();
  }
}

/**
 * The path of the first op that fails, or has no partner if none fails.
 * @param {Module} root
 */
export function firstProblem(root) {
  const isBad = (/** @type {Module} */ node) => root.counts.fail > 0 ? node.counts.fail > 0 : node.hasProblem();
  let node = root;
  for (;;) {
    const next = [...node.children.values()].find(isBad);
    if (!next) return node === root ? undefined : node.path;
    node = next;
  }
}
