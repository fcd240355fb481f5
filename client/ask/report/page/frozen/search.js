// SPDX-License-Identifier: Apache-2.0
// The search of a report.
import { patternOf } from "./format.js";
import { DATA } from "./frozen.js";

/** @typedef {import("./frozen.js").FrozenRow} FrozenRow */

/**
 * Whether ranks such as `0-3,8` include one.
 * @param {string} ranks
 * @param {number} rank
 */
const holds = (ranks, rank) => ranks.split(",").some((range) => {
  const [first, last] = range.split("-");
  return Number(first) <= rank && rank <= Number(last ?? first);
});

/** @param {string} pattern With `*` and `?`, as a search for ops of a page has. */
const expressionOf = (pattern) => new RegExp(
    `^${pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".")}$`, "is");

/** @param {string} word @returns {(row: FrozenRow) => boolean} */
function matcherOf(word) {
  const [, key, text] = /^(rank|token|call|row):(-?\d+)$/.exec(word) || [];
  const number = Number(text);
  if (key === "rank") return (row) => row.ranks ? holds(row.ranks, number) : row.rank === number;
  if (key) return (row) => row[/** @type {"token" | "call" | "row"} */ (key)] === number;
  /** @type {Map<string, boolean>} */
  const known = new Map();
  const matches = (/** @type {string} */ value, /** @type {(value: string) => boolean} */ test) => {
    let found = known.get(value);
    if (found === undefined) known.set(value, found = test(value));
    return found;
  };
  if (/^=|[*?]/.test(word)) {
    const expression = expressionOf(patternOf(word));
    return (row) => matches(row.op, (op) => expression.test(op));
  }
  const part = word.toLowerCase();
  const contains = (/** @type {string} */ value) => matches(value, (text) => text.toLowerCase().includes(part));
  return (row) => contains(row.op) || contains(row.reason) || contains(row.dtype) || contains(row.pairing) ||
      DATA.custom.some((_, i) => contains(row.note(i)));
}

/**
 * The rows that a search selects: those that match all of its words.
 * @param {string} text
 * @returns {(row: FrozenRow) => boolean}
 */
export function searchOf(text) {
  const matchers = text.split(/\s+/).filter((word) => word).map(matcherOf);
  return (row) => matchers.every((matches) => matches(row));
}
