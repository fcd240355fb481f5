// SPDX-License-Identifier: Apache-2.0
// The largest logits of both runs at one position.
import { call } from "./api.js";
import { dim, h, replaceIn, scrolling } from "./dom.js";
import { countText, numberText, toNumber } from "./format.js";
import { positionFields } from "./values.js";

/** Outputs of such ops have a score for each word of the vocabulary. */
const LOGITS = /(^|[._/])(lm_?head|logits?|logits_processor|output_layer|embed_out)([._/]|$)/i;

/** @param {any} row */
export const hasLogits = (row) => row.io === "output" && LOGITS.test(row.op);

/** @param {any} side */
const cellsOf = (side) => side ? [
  side.rank === null ? "-" : countText(side.rank + 1), numberText(side.value),
  Number.isFinite(toNumber(side.share)) ? `${(100 * side.share).toPrecision(3)} %` : "-",
] : ["-", "-", "-"];

/** @param {any} page */
function table(page) {
  const heads = ["token id", "golden", "logit", "share", "target", "logit", "share"];
  return scrolling("Largest logits", h("table", {},
    h("thead", {}, h("tr", {}, ...heads.map((text) => h("th", { scope: "col", class: "n" }, text)))),
    h("tbody", {}, ...page.top.map((/** @type {any} */ item) => h("tr", { class: item.golden && item.target && item.golden.rank !== item.target.rank && "unmatched" },
        h("th", { scope: "row", class: "n" }, item.id),
        ...[...cellsOf(item.golden), ...cellsOf(item.target)].map((text) => h("td", { class: "n" }, text)))))));
}

/** @param {any} page */
function choiceText(page) {
  const first = (/** @type {"golden" | "target"} */ side) => page.top.find((/** @type {any} */ item) => item[side]?.rank === 0);
  const [golden, target] = [first("golden"), first("target")];
  const count = page.shape[page.shape.length - 1];
  /** @type {string[]} */
  const texts = page.nan_counts.map((/** @type {number} */ nans, /** @type {number} */ i) => nans === 0 ? ""
      : `${nans === count ? "The" : `${countText(nans)} of the`} ${i ? "target's" : "golden"} logits are NaN.`);
  if (golden && target) {
    texts.unshift(golden.id === target.id ? `Both runs prefer token ${golden.id}.`
        : `The runs prefer different tokens: golden ${golden.id}, target ${target.id}.`);
  } else if (!page.nan_counts.includes(count)) {
    texts.unshift("Only one run has these logits.");
  }
  return texts.filter((text) => text).join(" ");
}

/** @param {string} comparison @param {any} row @param {AbortSignal} signal */
export function logitsSection(comparison, row, signal) {
  const place = h("div");
  let generation = 0;
  const load = async (/** @type {number[] | undefined} */ wanted) => {
    const mine = ++generation;
    try {
      const page = await call("page.logits", { comparison, row: row.row, at: wanted }, signal);
      if (mine !== generation) return;
      if (page.note) {
        place.replaceChildren(dim(`Not shown: ${page.note}.`));
        return;
      }
      const { shape, at } = page;
      replaceIn(place, h("p", {}, choiceText(page)),
        h("div", { class: "bar" }, ...positionFields(shape, at, [shape.length - 1], load)), table(page),
        dim("golden and target: the position in the order of the run. share: the softmax over all " +
          `${countText(shape[shape.length - 1])} logits.`));
    } catch (error) {
      if (mine !== generation || signal.aborted) return;
      place.replaceChildren(h("p", { class: "problem", role: "alert" }, /** @type {Error} */ (error).message));
    }
  };
  load(undefined);
  return h("section", {}, h("h2", {}, "Largest logits"), place);
}
