// SPDX-License-Identifier: Apache-2.0
// Shows the view that the address names: `#/c/c-000001/row/7?find=mlp`.
import { ApiError, forgetNodes, takeToken } from "./api.js";
import { showComparison } from "./comparison.js";
import { showCurves } from "./curves.js";
import { h } from "./dom.js";
import { showModules } from "./modules.js";
import { showNode } from "./node.js";
import { showRow } from "./row.js";
import { showOverview } from "./runs.js";

/**
 * What a view gets. It ends when `signal` is aborted.
 * @typedef {object} View
 * @property {HTMLElement} main
 * @property {string[]} words Parts of the path after the name of the view.
 * @property {URLSearchParams} query
 * @property {AbortSignal} signal
 * @property {(title: string) => void} setTitle
 * @property {(query: URLSearchParams) => void} keepQuery Changes the address,
 *     so that it leads to what is shown.
 */

/** @type {[RegExp, (view: View) => Promise<void>][]} */
const VIEWS = [
  [/^\/$/, showOverview],
  [/^\/node$/, showNode],
  [/^\/curves$/, showCurves],
  [/^\/c\/([^/]+)$/, showComparison],
  [/^\/c\/([^/]+)\/modules$/, showModules],
  [/^\/c\/([^/]+)\/row\/(\d+)$/, showRow],
];

let running = new AbortController();

/** @param {unknown} error */
function problemText(error) {
  if (error instanceof ApiError && error.status === 401) {
    return "The token is missing or belongs to an earlier start. Open the address that msitctl web printed.";
  }
  return error instanceof Error ? error.message : String(error);
}

async function route() {
  running.abort();
  running = new AbortController();
  const signal = running.signal;
  forgetNodes();
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const main = /** @type {HTMLElement} */ (document.getElementById("main"));
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#${path || "/"}`) {
      link.setAttribute("aria-current", "page");
    } else {
      link.removeAttribute("aria-current");
    }
  }
  main.replaceChildren(h("p", { class: "dim" }, "Loading\u2026"));
  for (const [pattern, show] of VIEWS) {
    const match = pattern.exec(path || "/");
    if (!match) continue;
    /** @type {string[]} */
    let words = [];
    try {
      words = match.slice(1).map(decodeURIComponent);
    } catch {
      break;
    }
    const view = {
      main,
      words,
      query: new URLSearchParams(query || ""),
      signal,
      setTitle: (/** @type {string} */ title) => { document.title = `${title} \u2013 msitd`; },
      keepQuery: (/** @type {URLSearchParams} */ kept) => {
        const text = kept.toString();
        if (!signal.aborted) history.replaceState(null, "", `#${path}${text ? `?${text}` : ""}`);
      },
    };
    try {
      await show(view);
    } catch (error) {
      if (signal.aborted) return;
      main.replaceChildren(h("h1", {}, "Not available"),
        h("p", { class: "problem", role: "alert" }, problemText(error)),
        h("button", { type: "button", onclick: route }, "Try again"));
    }
    return;
  }
  main.replaceChildren(h("h1", {}, "Not available"),
        h("p", { class: "problem", role: "alert" }, "There is no such page."),
        h("p", {}, h("a", { href: "#/" }, "Overview")));
}

takeToken();
addEventListener("hashchange", () => {
  takeToken();
  route();
});
// The address of this link would be that of a view.
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main")?.focus();
});
route();
