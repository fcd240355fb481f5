// SPDX-License-Identifier: Apache-2.0
// One row: why it has its verdict, its metrics, distributions and stacks.
import { call } from "./api.js";
import { curvesLink } from "./curves.js";
import { dim, h, putText } from "./dom.js";
import { metricTable, rowFacts, tensorText } from "./facts.js";
import { exactWord, numberText, shareText, toNumber } from "./format.js";
import { histogramView } from "./histogram.js";
import { onKeys } from "./keys.js";
import { hasLogits, logitsSection } from "./logits.js";
import { comparisonLink } from "./runs.js";
import { valuesSection } from "./values.js";

// Rows before and after this one that are listed.
const NEIGHBOURS = 4;

/** @param {string} comparison @param {number} row */
export const rowLink = (comparison, row) => `${comparisonLink(comparison)}/row/${row}`;

/**
 * A side of a histogram of the daemon.
 * @param {string} name
 * @param {any} histogram
 * @returns {import("./histogram.js").Side | null}
 */
const sideOf = (name, histogram) => histogram && {
  name, low: toNumber(histogram.low), high: toNumber(histogram.high), counts: histogram.counts.map(toNumber),
  below: toNumber(histogram.below_count), above: toNumber(histogram.above_count), nan: toNumber(histogram.nan_count),
};

/** @param {any} golden @param {any} target */
function sideTable(golden, target) {
  const fields = ["count", "min", "max", "mean", "abs_max", "l2_norm", "nan_count",
        "positive_infinity_count", "negative_infinity_count", "zero_count"];
  if (!golden && !target) return null;
  return h("table", { class: "small" },
    h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col", class: "n" }, "golden"),
        h("th", { scope: "col", class: "n" }, "target"))),
    h("tbody", {}, ...fields.map((field) => h("tr", {},
        h("th", { scope: "row" }, field.replaceAll("_", " ")),
        ...[golden, target].map((side) =>
            h("td", { class: "n" }, numberText(side?.summary?.[field])))))));
}

/** @param {any} golden @param {any} target */
function stacks(golden, target) {
  const found = [["golden", golden?.stack], ["target", target?.stack]].filter(([, stack]) => stack);
  if (found.length === 0) return dim("No stack was recorded.");
  if (found.length === 2 && found[0][1] === found[1][1]) found.splice(0, 2, ["both", golden.stack]);
  return h("div", {}, ...found.map(([name, stack]) => h("details", { open: true },
      h("summary", {}, name), h("pre", { tabindex: "0" }, stack))));
}

/** @param {string} comparison @param {any[]} rows @param {number} current */
function neighbours(comparison, rows, current) {
  return h("ol", { class: "neighbours" }, ...rows.map((row) => h("li", {},
      h("a", { href: rowLink(comparison, row.row), class: row.verdict,
          "aria-current": row.row === current && "true" },
        h("span", { class: "word" }, row.verdict), ` ${tensorText(row)}`,
        h("span", { class: "dim" }, ` rank ${row.rank}, token ${row.token}`,
          toNumber(row.share) >= 0 ? `, ${shareText(row.share)} of bound` : "")))));
}

/**
 * A link to the summaries of the op over tokens.
 * @param {any} row
 * @param {any[]} tensors Of both sides; null if they are not available.
 */
function curves(row, tensors) {
  const found = tensors.filter((tensor) => tensor);
  if (found.length === 0) return null;
  const runs = new Set(found.map((tensor) => tensor.run));
  const ops = new Set(found.map((tensor) => exactWord(tensor.op)));
  return h("a", { href: curvesLink([...runs], [...ops], row.io.toUpperCase()) }, "This op over tokens");
}

/** @param {import("./main.js").View} view */
export async function showRow(view) {
  const [comparison, word] = view.words;
  const number = Number(word);
  const first = Math.max(0, number - NEIGHBOURS);
  const numbers = Array.from({ length: NEIGHBOURS + number - first + 1 }, (_, i) => first + i);
  const [page, near] = await Promise.all([
    call("page.row", { comparison, rows: [number] }, view.signal),
    call("page.rows", { comparison, rows: numbers }, view.signal),
  ]);
  if (view.signal.aborted) return;
  const row = page.row;
  view.setTitle(`Row ${number}: ${tensorText(row)}`);
  const histogram = histogramView([sideOf("golden", page.golden.histogram), sideOf("target", page.target.histogram)]);
  view.main.replaceChildren(
    h("p", { class: "path" }, h("a", { href: comparisonLink(comparison) }, comparison),
      ` \u203a row ${number}`),
    h("h1", {}, h("span", { class: `chip ${row.verdict}` }, row.verdict), " ", tensorText(row)),
    putText(h("p", { class: "reason" }), row.reason),
    h("div", { class: "columns" },
      h("section", {}, rowFacts(row), h("h2", {}, "Metrics"), metricTable(row)),
      h("section", {}, h("h2", {}, "Values"), histogram,
        page.note ? dim(`${histogram ? "Not drawn" : "No histogram"}: ${page.note}`) : null,
        sideTable(page.golden.tensor, page.target.tensor),
        h("p", {}, curves(row, [page.golden.tensor, page.target.tensor]))),
      h("section", {}, h("h2", {}, "Recorded at"), stacks(page.golden.tensor, page.target.tensor),
        h("h2", {}, "Rows before and after"), neighbours(comparison, near.rows, number))),
    h("div", { class: "columns" }, valuesSection(comparison, page, view),
      hasLogits(row) ? logitsSection(comparison, row, view.signal) : null));
  const go = (/** @type {number} */ next) => {
    if (near.rows.some((/** @type {any} */ r) => r.row === next)) location.hash = rowLink(comparison, next);
  };
  onKeys({
    Escape: () => { location.hash = comparisonLink(comparison); },
    j: () => go(number + 1),
    k: () => go(number - 1),
  }, view.signal);
}
