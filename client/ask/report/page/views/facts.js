// SPDX-License-Identifier: Apache-2.0
// A row in words: why it has its verdict, and its metrics.
import { dim, h, putText } from "./dom.js";
import { numberText, shareText } from "./format.js";

/**
 * A row of a comparison. Texts that do not apply are empty.
 * @typedef {object} Row
 * @property {number} row
 * @property {number} rank
 * @property {number} token
 * @property {number} call
 * @property {string} op
 * @property {string} io
 * @property {string} index
 * @property {string} dtype
 * @property {string} shape
 * @property {string} verdict
 * @property {string} origin
 * @property {string} reason
 * @property {string} predicate
 * @property {string} pairing The target, if its name is another one.
 * @property {string} ranks Of all shards; empty for a tensor of one rank.
 * @property {string} shards
 * @property {string} request
 * @property {number} non_finite Sides with NaN or Inf: 1 target, 2 golden, 3 both.
 * @property {string} [decided_by]
 * @property {number | string | null} [share] The error as a multiple of its bound.
 * @property {Record<string, number | string | null>} metrics
 * @property {Record<string, [number | string | null, string]>} custom_metrics
 *     Metrics that were added later, which may be texts.
 */

/** @param {Row} row */
export const tensorText = (row) => `${row.op} ${row.io}${row.index === "" ? "" : `/${row.index}`}`;

/** @param {Row} row */
export const placeText = (row) => row.shards || `rank ${row.rank}`;

/** @param {Row} row */
export function rowFacts(row) {
  const list = h("dl", { class: "facts" });
  /** @param {string} label @param {string} text @param {boolean} [isBad] */
  const add = (label, text, isBad) => {
    if (text === "") return;
    list.append(h("dt", {}, label), putText(h("dd", { class: isBad && "bad" }), text));
  };
  add("verdict", row.verdict + (row.origin === "" ? "" : `, ${row.origin}`), row.verdict === "fail");
  if (row.decided_by) add("decided by", `${row.decided_by}, ${shareText(row.share)} of its bound`);
  add("needs", row.predicate);
  add("place", placeText(row));
  add("token", `${row.token}${row.call ? `, call ${row.call}` : ""}`);
  add("request", row.request);
  add("dtype", row.dtype);
  add("shape", row.shape);
  add("target", row.pairing);
  if (row.non_finite) {
    add("NaN or Inf", ["in the target", "in golden", "on both sides"][row.non_finite - 1]);
  }
  return list;
}

/** @param {Row} row */
export function metricTable(row) {
  /** @type {[string, any, string][]} */
  const metrics = [
    ...Object.entries(row.metrics).map(([name, value]) => /** @type {[string, any, string]} */ ([name, value, ""])),
    ...Object.entries(row.custom_metrics).map(([name, [value, text]]) =>
        /** @type {[string, any, string]} */ ([name, value, text])),
  ];
  if (metrics.length === 0) return dim("No metrics: the pair was not measured.");
  return h("table", { class: "small metrics" }, h("tbody", {}, ...metrics.map(([name, value, text]) =>
      h("tr", { class: name === row.decided_by && "on" }, h("th", { scope: "row" }, name),
        h("td", { class: "n" }, value === null && text ? "" : numberText(value), " ",
          text ? h("span", { class: "dim" }, text) : "")))));
}
