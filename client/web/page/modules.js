// SPDX-License-Identifier: Apache-2.0
// The modules of a comparison of the daemon, which reduces the rows to groups.
import { call, callPatiently, sleep } from "./api.js";
import { h } from "./dom.js";
import { countText, toNumber } from "./format.js";
import { rowLink } from "./row.js";
import { comparisonLink } from "./runs.js";
import { ModuleTree, firstProblem } from "./tree.js";

const POLL_MS = 1000;

/** Its lines lead to rows of the daemon. */
class LiveTree extends ModuleTree {
  /** @param {string} comparison @param {(isMove: boolean) => void} onChange */
  constructor(comparison, onChange) {
    super(onChange);
    this.comparison = comparison;
  }

  /** @param {import("./tree.js").Module} node */
  linkOf(node) {
    if (node.isLeaf() && node.counts.row >= 0) return h("a", { href: rowLink(this.comparison, node.counts.row) });
    const query = new URLSearchParams({ find: node.search() });
    if (!node.hasProblem()) query.set("verdicts", "fail,unmatched,skipped,pass");
    return h("a", { href: `${comparisonLink(this.comparison)}?${query}` });
  }
}

/**
 * Requests the rows by op, and later those of new rows, until the comparison
 * ends. Calls `onRows` after each answer, and `onProblem` while the daemon does
 * not answer.
 * @param {string} comparison
 * @param {LiveTree} tree
 * @param {AbortSignal} signal
 * @param {(done: number, total: number) => void} onRows
 * @param {(problem: string) => void} onProblem
 */
async function fill(comparison, tree, signal, onRows, onProblem) {
  let next = 0;
  let hasFailed = false;
  for (;;) {
    const part = await callPatiently("page.groups", { comparison, first_row: next, group_by: ["OP"] }, signal, (problem) => {
      hasFailed = true;
      onProblem(problem);
    });
    if (signal.aborted) return;
    for (const [op, , , pass, fail, unmatched, skipped, worst, row] of part.groups) {
      tree.root.add(part.ops[op], { pass, fail, unmatched, skipped, worst: toNumber(worst), row });
    }
    const isNew = next !== part.next_row;
    next = part.next_row;
    if (isNew || part.has_ended || hasFailed) onRows(next, part.row_count);
    hasFailed = false;
    if (next >= part.row_count) {
      if (part.has_ended) return;
      await sleep(POLL_MS);
    }
  }
}

/** @param {import("./main.js").View} view */
export async function showModules(view) {
  const name = view.words[0];
  const page = await call("page.comparison", { comparison: name }, view.signal);
  if (view.signal.aborted) return;
  view.setTitle(`Modules of ${name}`);
  const keep = () => {
    const query = new URLSearchParams();
    if (tree.focused) query.set("at", tree.focused);
    if (tree.only.checked) query.set("only", "problems");
    view.keepQuery(query);
  };
  let hasMoved = false;
  const tree = new LiveTree(name, (isMove) => {
    hasMoved ||= isMove;
    keep();
  });
  tree.only.checked = view.query.get("only") === "problems";
  const status = h("p", { class: "dim", role: "status" });
  view.main.replaceChildren(
    h("p", { class: "path" }, h("a", { href: comparisonLink(name) }, name), " \u203a modules"),
    h("h1", {}, page.title),
    h("div", { class: "bar" }, tree.filter),
    status, tree.element,
    h("p", { class: "dim keys" }, "Keys: up and down move, right and left open and close, Enter shows the rows."));
  let isRevealed = false;
  const wanted = view.query.get("at");
  await fill(name, tree, view.signal, (done, total) => {
    const first = wanted ?? page.comparison.first_divergence?.op ?? firstProblem(tree.root);
    // Not again where the user has moved in the meantime.
    if (first !== undefined && first !== tree.revealed && !isRevealed && !hasMoved) tree.reveal(first);
    tree.draw();
    isRevealed ||= tree.item(tree.revealed) !== undefined;
    status.textContent = done < total ? `${countText(done)} of ${countText(total)} rows`
        : total === 0 ? "The comparison has no rows." : "";
  }, (problem) => { status.textContent = problem; });
}
