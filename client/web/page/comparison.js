// SPDX-License-Identifier: Apache-2.0
// A comparison: the result in a sentence, findings, and the rows.
import { ApiError, call, nodeSelect, poll, readLines, sleep } from "./api.js";
import { curvesLink } from "./curves.js";
import { h } from "./dom.js";
import { Filters, VERDICTS } from "./filters.js";
import { countText, patternOf, toNumber } from "./format.js";
import { GroupMap } from "./groups.js";
import { headView } from "./head.js";
import { onKeys } from "./keys.js";
import { rowLink } from "./row.js";
import { RowTable } from "./rows.js";
import { comparisonLink } from "./runs.js";

// Verdicts that are shown at first.
const CHOSEN = "fail,unmatched";
const RETRY_MS = 1000;
// Time between two requests for the findings of a comparison that runs.
const FINDINGS_MS = 1000;
const POLL_MS = 2000;
// A table with more rows is requested again only when the comparison has ended.
const LIVE_ROWS_MAX = 1000;

/** @param {any} comparison */
const isRunning = (comparison) => comparison.state === "PENDING" || comparison.state === "RUNNING";

/**
 * What is chosen, as a selection of rows.
 * @param {Filters} filters
 */
function selectionOf(filters) {
  const on = filters.verdicts().map((verdict) => verdict.toUpperCase());
  return {
    verdicts: on.length === VERDICTS.length ? [] : on.length ? on : ["VERDICT_UNSPECIFIED"],
    op_patterns: filters.find.value.split(/\s+/).filter((word) => word).map(patternOf),
  };
}

/** @param {Filters} filters */
function queryOf(filters) {
  const query = new URLSearchParams();
  const on = filters.verdicts().join();
  if (on !== CHOSEN) query.set("verdicts", on);
  if (filters.find.value) query.set("find", filters.find.value);
  return query;
}

/** The result, the findings and the setup; replaced while a comparison runs. */
class Head {
  /** @param {string} name */
  constructor(name) {
    this.name = name;
    this.element = h("div");
  }

  /** @param {any} page */
  show(page) {
    const comparison = page.comparison;
    const running = isRunning(comparison);
    const linkOf = (/** @type {number} */ row) => page.nodes ? null : h("a", { href: rowLink(this.name, row) });
    const isOpen = this.element.querySelector("details")?.open || false;
    this.element.replaceChildren(h("h1", {}, page.title), headView({
      name: this.name, verdict: running ? "-" : page.verdict, state: running ? comparison.state.toLowerCase() : "",
      findings: page.findings, setup: page.setup,
    }, linkOf, isOpen,
    h("p", { class: "views" },
      page.nodes ? "" : h("a", { href: `${comparisonLink(this.name)}/modules` }, "Module tree"),
      h("a", { href: curvesLink([comparison.golden_run, comparison.target_run], []) }, "Curves of both runs")),
    page.nodes && h("p", { class: "dim" }, "Rows of several daemons are not opened, since each daemon has its own " +
        "numbers. Serve the page of one daemon.")));
  }
}

/** @param {any} comparison */
const countsOf = (comparison) => VERDICTS.map((verdict) => toNumber(comparison[`${verdict}_count`]));

/** @typedef {{head: Head, filters: Filters, table: RowTable, map: GroupMap, progress: HTMLElement}} Parts */

/**
 * @param {string} state
 * @param {number} done
 * @param {any} total Rows that are expected; 0 or less if that is not known.
 */
const progressText = (state, done, total) => `${state}: ${countText(done)}` +
    `${toNumber(total) > 0 ? ` of about ${countText(total)}` : ""} rows`;

/**
 * As follow, for several daemons, which do not stream rows.
 * @param {import("./main.js").View} view
 * @param {string} name
 * @param {Parts} parts
 */
async function followByPolling(view, name, parts) {
  const { head, filters, table, progress } = parts;
  let done = -1;
  await poll(view.signal, POLL_MS, async () => {
    try {
      const page = await call("page.comparison", { comparison: name }, view.signal);
      if (view.signal.aborted) return false;
      const { comparison } = page;
      const counts = countsOf(comparison);
      const now = counts.reduce((a, b) => a + b, 0);
      head.show(page);
      filters.setCounts(counts);
      if ((now !== done || table.isBehind()) && (table.rows.length <= LIVE_ROWS_MAX || !isRunning(comparison))) {
        await table.reload();
      }
      done = now;
      progress.textContent = isRunning(comparison)
          ? progressText(comparison.state.toLowerCase(), now, comparison.total_count) : "";
      return isRunning(comparison) || table.isBehind();
    } catch (error) {
      if (!view.signal.aborted) progress.textContent = /** @type {Error} */ (error).message;
    }
  });
}

/**
 * Shows rows as they are produced, until the comparison ends. A daemon that
 * restarts is called again; rows continue after the last one that was received.
 * @param {import("./main.js").View} view
 * @param {string} name
 * @param {number[]} counts Rows so far, in the order of VERDICTS.
 * @param {Parts} parts
 */
async function follow(view, name, counts, parts) {
  let next = counts.reduce((a, b) => a + b, 0);
  let passes = counts[VERDICTS.indexOf("pass")];
  let findings = -1;
  let asked = -FINDINGS_MS;
  let timer = 0;
  let hasEnded = false;
  const refresh = async () => {
    timer = 0;
    asked = performance.now();
    const page = await call("page.comparison", { comparison: name }, view.signal);
    if (view.signal.aborted) return;
    parts.head.show(page);
    parts.map.first = page.comparison.first_divergence;
    parts.map.refresh();
  };
  // The next line may take long, so a refresh that is too early is not left out.
  const refreshSoon = () => {
    if (timer) return;
    timer = setTimeout(() => refresh().catch((e) => e.status === 404 || view.signal.aborted || refreshSoon()),
        Math.max(0, FINDINGS_MS - (performance.now() - asked)));
  };
  const onLine = (/** @type {any} */ line) => {
    if (line.error) {
      parts.progress.textContent = line.error;
      hasEnded = line.error.startsWith("NOT_FOUND");
      return;
    }
    next = line.next_row;
    const [pass, fail, unmatched, skipped] = line.counts;
    parts.filters.setCounts([fail, unmatched, skipped, pass]);
    parts.table.add(line.rows, pass > passes);
    passes = pass;
    parts.progress.textContent = line.state === "pending" || line.state === "running"
        ? progressText(line.state, pass + fail + unmatched + skipped, line.total_count) : "";
    hasEnded = line.state !== "pending" && line.state !== "running";
    if (line.first_divergence !== findings || hasEnded) refreshSoon();
    findings = line.first_divergence;
  };
  poll(view.signal, POLL_MS, async () => {
    if (parts.table.isBehind() && parts.table.rows.length <= LIVE_ROWS_MAX) await parts.table.reload();
    return !hasEnded;
  });
  while (!hasEnded && !view.signal.aborted) {
    try {
      await readLines("page.stream", { comparison: name, first_row: next,
        verdicts: ["FAIL", "UNMATCHED", "SKIPPED"] },
        view.signal, onLine);
    } catch (error) {
      if (view.signal.aborted) return;
      if (error instanceof ApiError && error.status === 501) {
        hasEnded = true;
        return followByPolling(view, name, parts);
      }
      parts.progress.textContent = /** @type {Error} */ (error).message;
    }
    if (!hasEnded) await sleep(RETRY_MS);
  }
  if (parts.table.isBehind()) await parts.table.reload();
}

/** @param {import("./main.js").View} view */
export async function showComparison(view) {
  const name = view.words[0];
  const page = await call("page.comparison", { comparison: name }, view.signal);
  if (view.signal.aborted) return;
  view.setTitle(page.title);
  const head = new Head(name);
  head.show(page);
  const metrics = page.metrics.filter((/** @type {any} */ m) => m.in_default_columns)
      .map((/** @type {any} */ m) => m.name).concat(page.comparison.custom_metrics || []);
  const table = new RowTable(name, metrics, Boolean(page.nodes), view.signal);
  let node = view.query.get("node") || "";
  const keep = () => {
    const query = queryOf(filters);
    if (color) query.set("color", color);
    if (node) query.set("node", node);
    view.keepQuery(query);
  };
  let color = view.query.get("color") || "";
  const filters = new Filters((view.query.get("verdicts") ?? CHOSEN).split(","), view.query.get("find") || "",
      "op, such as mlp or *.attn", () => {
        keep();
        table.select({ ...selectionOf(filters), node });
      });
  if (page.nodes) {
    filters.element.append(nodeSelect(page.nodes, node, (one) => {
      node = one;
      filters.change();
    }));
  }
  filters.setCounts(countsOf(page.comparison));
  const progress = h("p", { class: "dim", role: "status" });
  const map = new GroupMap(name, page.comparison.first_divergence, page.metrics, color, (metric) => {
    color = metric;
    keep();
  }, view.signal);
  map.start("op");
  view.main.replaceChildren(head.element, progress, map.element, h("h2", {}, "Rows"),
    filters.element, table.count, table.scroll,
    h("p", { class: "dim keys" }, "Keys: / search, n next row that fails, p the one before; in the table up, down, Enter."));
  onKeys({
    "/": () => filters.find.focus(),
    n: () => table.nextFailing(1),
    p: () => table.nextFailing(-1),
  }, view.signal);
  await table.select({ ...selectionOf(filters), node });
  if (isRunning(page.comparison)) {
    await follow(view, name, countsOf(page.comparison), { head, filters, table, map, progress });
  }
}
