// SPDX-License-Identifier: Apache-2.0
// The daemon: state, counters and streams.
import { call, poll } from "./api.js";
import { h, scrolling } from "./dom.js";
import { countText, sizeText } from "./format.js";

const POLL_MS = 2000;

/** @param {string} name @param {any} value */
function fieldText(name, value) {
  if (/_bytes(_max)?$/.test(name)) return sizeText(value);
  if (/^\d+\.\d+s$/.test(String(value))) return `${Math.round(parseFloat(value))}s`;
  if (/^-?\d+$/.test(String(value))) return countText(value);
  return String(value);
}

// Counters that are 0 on a healthy node.
const PROBLEM = /^(refused|conflict|dropped|torn|corrupt|false|truncated|missing|unread|unreadable)_/;

/** @param {any} status */
function statusList(status) {
  const list = h("dl", { class: "counters" });
  for (const [name, value] of Object.entries(status)) {
    if (typeof value === "object" || value === "") continue;
    const isProblem = PROBLEM.test(name) && Number(value) > 0;
    list.append(h("div", {}, h("dt", {}, name.replaceAll("_", " ")),
        h("dd", { class: isProblem && "bad" }, fieldText(name, value))));
  }
  return list;
}

/** @param {any[]} streams */
function streamTable(streams) {
  if (streams.length === 0) return h("p", { class: "dim" }, "No rank is connected.");
  return scrolling("Streams", h("table", {},
      h("thead", {}, h("tr", {}, ...["run", "rank", "received", "records", "dropped"].map((text, i) =>
          h("th", { scope: "col", class: i > 0 && "n" }, text)))),
      h("tbody", {}, ...streams.map((s) => h("tr", {}, h("th", { scope: "row" }, s.run),
          ...[s.rank, sizeText(s.committed_size_bytes), countText(s.committed_record_count),
              countText(s.dropped_count)].map((text) => h("td", { class: "n" }, text)))))));
}

/** @param {import("./main.js").View} view */
export async function showNode(view) {
  view.setTitle("Node");
  const status = h("div");
  const streams = h("div");
  const note = h("p", { class: "problem", role: "status" });
  const update = async () => {
    const [state, list] = await Promise.all([
      call("NodeService.GetNodeStatus", {}, view.signal),
      call("NodeService.ListStreams", { page_size: 1000 }, view.signal),
    ]);
    if (view.signal.aborted) return;
    status.replaceChildren(statusList(state));
    streams.replaceChildren(streamTable(list.streams));
    note.textContent = state.storage_error || "";
  };
  await update();
  view.main.replaceChildren(h("h1", {}, "Node"), note, status, h("h2", {}, "Streams"), streams);
  await poll(view.signal, POLL_MS, async () => {
    try {
      await update();
    } catch (error) {
      if (!view.signal.aborted) note.textContent = /** @type {Error} */ (error).message;
    }
  });
}
