// SPDX-License-Identifier: Apache-2.0
// The result of a comparison: verdict, findings and setup.
import { factList, h, verdictMark } from "./dom.js";

/**
 * @typedef {object} Result
 * @property {string} name
 * @property {string} verdict PASS, FAIL, PARTIAL, or - without a result.
 * @property {string} [state] Of a comparison that runs.
 * @property {[string, string, number][]} findings
 * @property {[string, string, number][]} setup
 */

/**
 * @param {Result} result
 * @param {import("./dom.js").LinkOf} linkOf
 * @param {boolean} isOpen Whether the setup is shown.
 * @param {...import("./dom.js").Child} links Shown before the findings.
 */
export function headView({ name, verdict, state, findings, setup }, linkOf, isOpen, ...links) {
  return h("div", {},
    h("p", {}, verdictMark(verdict), " ",
      h("span", { class: "dim" }, `comparison ${name}${state ? `, ${state}` : ""}`)),
    ...links,
    factList(findings, linkOf),
    h("details", { open: isOpen }, h("summary", {}, "What was compared"), factList(setup, linkOf)));
}
