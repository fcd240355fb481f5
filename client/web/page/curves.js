// SPDX-License-Identifier: Apache-2.0
// A summary of ops over tokens or training steps, of one or several runs.
import { ApiError, call, poll } from "./api.js";
import { h } from "./dom.js";
import { countText, patternOf, rangesText, toNumber } from "./format.js";
import { Plot } from "./plot.js";

// Curves that are shown at once: as many as there are colors.
const CURVES_MAX = 8;
const DASHES = 4;
const POLL_MS = 10_000;

const VALUES = ["l2_norm", "max", "min", "mean", "abs_max", "l1_norm", "sum", "nan_count",
        "positive_infinity_count", "negative_infinity_count", "zero_count", "count"];
const SIDES = ["OUTPUT", "INPUT", "WEIGHT", "GRAD_OUTPUT", "GRAD_INPUT", "GRAD_WEIGHT", "STATE"];

/** @typedef {{runs: string[], ops: string[], value: string, side: string, tokens: string, isLog: boolean}} Choice */

/**
 * The address of the curves of runs and ops.
 * @param {string[]} runs
 * @param {string[]} ops Patterns.
 * @param {string} [side]
 */
export function curvesLink(runs, ops, side) {
  const query = new URLSearchParams();
  for (const run of runs) query.append("run", run);
  for (const op of ops) query.append("op", op);
  if (side) query.set("side", side);
  return `#/curves?${query}`;
}

/** @param {URLSearchParams} query @returns {Choice} */
function choiceOf(query) {
  const value = query.get("value") || "";
  return {
    runs: query.getAll("run"), ops: query.getAll("op"),
    value: VALUES.includes(value) ? value : VALUES[0],
    side: query.get("side") ?? SIDES[0], tokens: query.get("tokens") || "", isLog: query.get("scale") === "log",
  };
}

/** @param {Choice} choice */
function queryOf(choice) {
  const query = new URLSearchParams(curvesLink(choice.runs, choice.ops).split("?")[1]);
  if (choice.side !== SIDES[0]) query.set("side", choice.side);
  if (choice.value !== VALUES[0]) query.set("value", choice.value);
  if (choice.tokens) query.set("tokens", choice.tokens);
  if (choice.isLog) query.set("scale", "log");
  return query;
}

/** @param {Choice} choice @param {string[]} patterns */
function filterOf({ tokens, side }, patterns) {
  /** @type {Record<string, any>} */
  const filter = { op_patterns: patterns };
  if (SIDES.includes(side)) filter.ios = [`IO_${side}`];
  if (tokens) {
    const match = /^\s*(\d+)\s*(?:[-\u2013:]\s*(\d+)\s*)?$/.exec(tokens);
    if (!match) throw new Error(`Tokens are a number or a range such as 0-99, not "${tokens}".`);
    filter.tokens = [{ first: match[1], last: match[2] ?? match[1] }];
  }
  return filter;
}

/** What the answers lack, once each. */
class Gaps {
  constructor() {
    /** @type {Set<string>} */
    this.texts = new Set();
    /** @type {Map<string, Error>} */
    this.missing = new Map();
  }

  /** @param {string} run @param {any} answer */
  add(run, { ranks_lacking: ranks }) {
    if (!ranks.length) return;
    const ranges = ranks.map((/** @type {[number, number]} */ [first, last]) => ({ first, last }));
    this.texts.add(`${run} lacks ranks ${rangesText(ranges)}`);
  }
}

/**
 * Requests a value of groups of tensors.
 * @param {Choice} choice
 * @param {string} run
 * @param {"TOKEN" | "OP"} groups
 * @param {string[]} patterns
 * @param {Gaps} gaps
 * @param {AbortSignal} signal
 * @returns {Promise<{keys: string[], values: any[]}>}
 */
async function summarize(choice, run, groups, patterns, gaps, signal) {
  if (gaps.missing.has(run)) return { keys: [], values: [] };
  try {
    const answer = await call("page.summaries", { run, group_by: groups, filter: filterOf(choice, patterns), value: choice.value },
        signal);
    gaps.add(run, answer);
    return answer;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404) {
      gaps.missing.set(run, error);
      gaps.texts.add(error.message);
      return { keys: [], values: [] };
    }
    if (error.status !== 429) throw error;
    throw new Error(`${error.message}. ${groups === "OP" ? "Search for fewer ops" : "Choose tokens, such as 0-9999"}.`);
  }
}

/** @param {Choice} choice @param {AbortSignal} signal */
async function fetchCurves(choice, signal) {
  /** @type {(string | null)[]} */
  let ops = [null];
  const gaps = new Gaps();
  if (choice.ops.length) {
    const found = [];
    for (const run of choice.runs) found.push(await summarize(choice, run, "OP", choice.ops.map(patternOf), gaps, signal));
    ops = [...new Set(found.flatMap(({ keys }) => keys))];
  }
  const opCount = Math.max(1, Math.floor(CURVES_MAX / Math.max(1, choice.runs.length)));
  const runs = choice.runs.slice(0, CURVES_MAX);
  /** @type {import("./plot.js").Series[]} */
  const series = [];
  for (const op of ops.slice(0, opCount)) {
    for (const [j, run] of runs.entries()) {
      const { keys, values } = await summarize(choice, run, "TOKEN", op === null ? [] : [op], gaps, signal);
      if (keys.length === 0) continue;
      const parts = [op ?? "all ops", runs.length > 1 || op === null ? run : ""];
      series.push({ name: parts.filter((part) => part).join(" of "), x: keys.map(Number), y: values.map(toNumber),
        color: series.length % CURVES_MAX, dash: j % DASHES });
    }
  }
  // Other runs are shown without the ones that do not exist.
  if (series.length === 0) for (const error of gaps.missing.values()) throw error;
  const left = [];
  if (ops.length > opCount) left.push(`the first ${opCount} of ${countText(ops.length)} ops`);
  if (choice.runs.length > runs.length) left.push(`the first ${runs.length} of ${choice.runs.length} runs`);
  const notes = left.length ? [`Shown: ${left.join(", ")}. Search for fewer.`] : [];
  if (gaps.texts.size) notes.push(`Incomplete: ${[...gaps.texts].join("; ")}.`);
  return { series, note: notes.join(" ") };
}

/**
 * The form that makes a choice.
 * @param {Choice} choice
 * @param {string[]} names
 * @param {() => void} onChange
 */
function chooser(choice, names, onChange) {
  /** @param {string} label @param {string[]} values @param {string} chosen @param {(v: string) => void} set */
  const select = (label, values, chosen, set) => h("label", {}, label, " ", h("select", {
    onchange: (event) => {
      set(event.target.value);
      onChange();
    },
  }, ...values.map((value) => h("option", { value, selected: value === chosen },
        value.toLowerCase().replaceAll("_", " ") || "all"))));
  /** @param {string} label @param {string} value @param {string} hint @param {(v: string) => void} set */
  const field = (label, value, hint, set) => h("label", { class: "grow" }, label, " ", h("input", {
    type: "search", value, placeholder: hint,
    onchange: (event) => {
      set(event.target.value.trim());
      onChange();
    },
  }));
  const pick = (/** @type {string} */ name) => h("label", {}, h("input", {
    type: "checkbox", checked: choice.runs.includes(name),
    onchange: (event) => {
      const isOn = event.target.checked;
      choice.runs = isOn ? [...choice.runs, name] : choice.runs.filter((one) => one !== name);
      onChange();
    },
  }), " ", name);
  return h("form", { onsubmit: (event) => event.preventDefault() },
    h("fieldset", { class: "picks" }, h("legend", {}, "runs"), ...names.map(pick)),
    h("div", { class: "bar" },
      field("ops", choice.ops.join(" "), "mlp, *.attn or =head",
          (text) => { choice.ops = text.split(/\s+/).filter((word) => word); }),
      select("value", VALUES, choice.value, (value) => { choice.value = value; }),
      select("side", [...SIDES, ""], choice.side, (side) => { choice.side = side; }),
      field("tokens", choice.tokens, "all, or 0-99", (text) => { choice.tokens = text; }),
      h("label", {}, h("input", {
        type: "checkbox", checked: choice.isLog,
        onchange: (event) => {
          choice.isLog = event.target.checked;
          onChange();
        },
      }), " logarithmic")));
}

/** @param {import("./main.js").View} view */
export async function showCurves(view) {
  view.setTitle("Curves");
  const list = await call("RunService.ListRuns", { page_size: 1000 }, view.signal);
  if (view.signal.aborted) return;
  const choice = choiceOf(view.query);
  /** @type {any[]} */
  const known = list.runs;
  const names = [...new Set([...choice.runs, ...known.map((run) => run.name)])];
  if (choice.runs.length === 0) choice.runs = names.slice(0, 1);
  const plot = new Plot("token", view.signal);
  const head = h("h2");
  const status = h("p", { class: "dim", role: "status" });
  const problem = h("p", { class: "problem", role: "alert" });
  let generation = 0;
  const update = async () => {
    const mine = ++generation;
    view.keepQuery(queryOf(choice));
    head.textContent = `${choice.value.replaceAll("_", " ")} of ` +
        (choice.side ? `${choice.side.toLowerCase().replaceAll("_", " ")}s` : "all sides") +
        (choice.tokens ? `, tokens ${choice.tokens}` : "");
    if (choice.runs.length === 0) {
      plot.show([], choice.isLog);
      status.textContent = "No run is chosen.";
      return;
    }
    try {
      const { series, note } = await fetchCurves(choice, view.signal);
      if (mine !== generation || view.signal.aborted) return;
      plot.show(series, choice.isLog);
      problem.textContent = "";
      status.textContent = series.length ? note : "No tensor matches.";
    } catch (error) {
      if (mine !== generation || view.signal.aborted) return;
      plot.show([], choice.isLog);
      status.textContent = "";
      problem.textContent = /** @type {Error} */ (error).message;
    }
  };
  const start = () => {
    status.textContent = "Loading\u2026";
    return update();
  };
  view.main.replaceChildren(h("h1", {}, "Curves"), chooser(choice, names, start), problem, status, head, plot.element,
    h("p", { class: "dim keys" }, "A value is that of all tensors of the op at a token together: ranks, calls and " +
      "arguments. Keys: left, right, Page Up, Page Down, Home, End."));
  await start();
  const active = new Set(known.filter((run) => run.state === "ACTIVE").map((run) => run.name));
  let isNew = true;
  await poll(view.signal, POLL_MS, async () => {
    if (!isNew && choice.runs.some((run) => active.has(run))) await update();
    isNew = false;
  });
}
