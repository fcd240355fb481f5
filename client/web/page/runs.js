// SPDX-License-Identifier: Apache-2.0
// The overview: comparisons with their result in a sentence, and live runs.
import { call, poll } from "./api.js";
import { dim, h, scrolling, verdictMark } from "./dom.js";
import { countText, rangesText, sizeText, timeText, toNumber } from "./format.js";

const POLL_MS = 2000;

/** @param {string} name */
export const comparisonLink = (name) => `#/c/${encodeURIComponent(name)}`;

/** @param {any[]} comparisons */
function comparisonTable(comparisons) {
  if (comparisons.length === 0) {
    return dim("No comparisons. To start one: msitctl compare run GOLDEN TARGET");
  }
  return h("ul", { class: "cards" }, ...comparisons.map((c) => h("li", {},
      h("a", { href: comparisonLink(c.name) },
        verdictMark(c.state === "done" ? c.verdict : "-"),
        h("span", { class: "sentence" }, c.title),
        h("span", { class: "dim" },
          `${c.name}: golden ${c.golden_run}, target ${c.target_run}; `,
          c.state === "done" ? `${countText(c.fail_count)} of ${countText(c.row_count)} rows fail`
        : `${c.state}, ${countText(c.row_count)} rows so far`)))));
}

/**
 * What a run lacks or lost; empty if nothing is missing.
 * @param {any} run
 */
function problemsOf(run) {
  const counters = run.counters || {};
  /** @type {string[]} */
  const problems = [];
  if (run.partial) problems.push(`lacks ranks ${rangesText(run.ranks_lacking)}`);
  for (const [field, text] of [["dropped_count", "dropped"], ["truncated_count", "truncated"],
        ["conflict_count", "recorded twice"],
        ["missing_size_bytes", "bytes missing"]]) {
    if (toNumber(counters[field]) > 0) problems.push(`${countText(counters[field])} ${text}`);
  }
  return problems.join("; ");
}

/**
 * @param {any[]} runs
 * @param {Map<string, number>} rates Bytes per second by run.
 * @param {Record<string, Record<string, string>> | undefined} holders The ranks that each of several daemons has, by run.
 */
function runTable(runs, rates, holders) {
  if (runs.length === 0) return dim("No runs.");
  const heads = ["run", "state", "ranks", "tensors", "size", "rate", "missing", "created (UTC)"];
  if (holders) heads.splice(3, 0, "nodes");
  const numeric = new Set(["tensors", "size", "rate"]);
  return scrolling("Runs", h("table", {},
      h("thead", {}, h("tr", {}, ...heads.map((name) =>
          h("th", { scope: "col", class: numeric.has(name) && "n" }, name)))),
      h("tbody", {}, ...runs.map((run) => {
        const problems = problemsOf(run);
        const rate = rates.get(run.id) || 0;
        return h("tr", {},
          h("th", { scope: "row" }, run.name),
          h("td", {}, run.state.toLowerCase()),
          h("td", {}, `${rangesText(run.ranks_held) || "-"} of ${run.world_size || "?"}`),
          holders && h("td", {}, Object.keys(holders[run.name] || {}).join(", ") || "-"),
          h("td", { class: "n" }, countText(run.counters?.tensor_count)),
          h("td", { class: "n" }, sizeText(run.counters?.size_bytes)),
          h("td", { class: "n" }, rate > 0 ? `${sizeText(rate)}/s` : "-"),
          h("td", { class: problems && "bad" }, problems || "-"),
          h("td", {}, timeText(run.create_time)));
      }))));
}

/**
 * Measures the growth of runs between two answers.
 * @param {Map<string, [number, number]>} before Time and size by run.
 * @param {any[]} runs
 */
function growth(before, runs) {
  /** @type {Map<string, number>} */
  const rates = new Map();
  const now = performance.now();
  for (const run of runs) {
    const size = toNumber(run.counters?.size_bytes);
    const last = before.get(run.id);
    if (last && now > last[0]) rates.set(run.id, (size - last[1]) * 1000 / (now - last[0]));
    before.set(run.id, [now, size]);
  }
  return rates;
}

/**
 * A form that compares two runs with the default policy.
 * @param {any[]} runs
 */
function compareForm(runs) {
  const names = runs.map((run) => run.name);
  /** @param {string} label @param {string} name @param {number} chosen */
  const select = (label, name, chosen) => h("label", {}, label, " ",
      h("select", { name }, ...names.map((text, i) =>
          h("option", { value: text, selected: i === chosen }, text))));
  const problem = h("span", { class: "problem", role: "alert" });
  return h("form", {
    class: "bar",
    onsubmit: async (event) => {
      event.preventDefault();
      const form = new FormData(event.target);
      problem.textContent = "";
      try {
        const comparison = await call("ComparisonService.CreateComparison", {
          comparison: { golden_run: form.get("golden"), target_run: form.get("target") },
        });
        location.hash = comparisonLink(comparison.name);
      } catch (error) {
        problem.textContent = /** @type {Error} */ (error).message;
      }
    },
  }, select("golden", "golden", 0), select("target", "target", 1),
     h("button", { type: "submit" }, "Compare"), problem);
}

/** @param {import("./main.js").View} view */
export async function showOverview(view) {
  view.setTitle("Overview");
  const comparisons = h("div");
  const runs = h("div");
  const form = h("div");
  const note = h("p", { class: "problem", role: "status" });
  /** @type {Map<string, [number, number]>} */
  const sizes = new Map();
  let shown = "";
  let names = "";
  const update = async () => {
    const [list, found] = await Promise.all([
      call("RunService.ListRuns", { page_size: 1000 }, view.signal),
      call("page.comparisons", {}, view.signal),
    ]);
    if (view.signal.aborted) return;
    runs.replaceChildren(runTable(list.runs, growth(sizes, list.runs), list.nodes && (list.held_by || {})));
    const now = JSON.stringify(found);
    // What does not change keeps the focus.
    if (now !== shown) comparisons.replaceChildren(comparisonTable(found.comparisons));
    shown = now;
    const known = list.runs.map((/** @type {any} */ run) => run.name).join("\n");
    if (known !== names) form.replaceChildren(list.runs.length > 1 ? compareForm(list.runs) : "");
    names = known;
    note.textContent = "";
  };
  await update();
  view.main.replaceChildren(note, h("h1", {}, "Comparisons"), comparisons, form,
        h("h2", {}, "Runs"), runs);
  await poll(view.signal, POLL_MS, async () => {
    try {
      await update();
    } catch (error) {
      if (!view.signal.aborted) note.textContent = /** @type {Error} */ (error).message;
    }
  });
}
