// SPDX-License-Identifier: Apache-2.0
// Calls of the server. Nothing else is ever requested.
import { h } from "./dom.js";

const KEY = "msitd-token";

/** An answer that is an error. */
export class ApiError extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Moves the token from the address to the storage of the browser, in which later
 * pages of this origin find it. A server that is started again has another one.
 */
export function takeToken() {
  const match = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!match) return;
  localStorage.setItem(KEY, match[1]);
  history.replaceState(null, "", location.pathname + "#/");
}

/** @param {string} name @param {object} body @param {AbortSignal} [signal] */
async function post(name, body, signal) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(`/api/v1/${name}`, {
      method: "POST",
      signal,
      headers: {
        "Authorization": `Bearer ${localStorage.getItem(KEY) || ""}`,
        "Content-Type": "application/json",
      },
      body: JSON.stringify(body),
    });
  } catch (error) {
    if (signal && signal.aborted) throw error;
    throw new ApiError(0, "msitctl web does not answer. Start it again, and open the address that it prints.");
  }
  if (response.ok) return response;
  const text = await response.text();
  let message = text.trim();
  try {
    message = JSON.parse(text).error || message;
  } catch {
    // The server itself answers with plain text.
  }
  throw new ApiError(response.status, message || `HTTP ${response.status}`);
}

/** @param {string} name @param {object} body @param {AbortSignal} [signal] @returns {Promise<any>} */
export async function call(name, body, signal) {
  const answer = await (await post(name, body, signal)).json();
  if (signal?.aborted) return answer;
  /** @type {any[]} */
  const failed = answer.nodes_failed || [];
  silent.set(name, failed.map(({ node }) => node));
  showNodes();
  return answer;
}

/**
 * A control that selects the rows of one of several daemons.
 * @param {string[]} nodes
 * @param {string} chosen Empty for all. One that is not in `nodes` is also shown, so that
 *   a link to a daemon of another time can be corrected.
 * @param {(node: string) => void} onChange
 */
export const nodeSelect = (nodes, chosen, onChange) => h("label", {}, "node ", h("select", {
  class: "nodes", onchange: (event) => onChange(event.target.value),
}, h("option", { value: "" }, "all"), ...[...new Set([...nodes, chosen])].filter(Boolean).map((node) => h("option", { value: node, selected: node === chosen }, node))));

/** Daemons that did not answer, by call. @type {Map<string, string[]>} */
const silent = new Map();

function showNodes() {
  const place = document.getElementById("nodes");
  const nodes = [...new Set([...silent.values()].flat())].join(", ");
  const text = nodes && `Incomplete: no answer from ${nodes}.`;
  if (place && place.textContent !== text) place.textContent = text;
}

/** Forgets the daemons that did not answer calls of another view. */
export function forgetNodes() {
  silent.clear();
  showNodes();
}

/** @param {number} ms */
export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * As call, but waits for a daemon that is restarting.
 * @param {string} name
 * @param {object} body
 * @param {AbortSignal} signal
 * @param {(problem: string) => void} onProblem
 * @returns {Promise<any>}
 */
export async function callPatiently(name, body, signal, onProblem) {
  for (;;) {
    try {
      return await call(name, body, signal);
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError) || ![0, 503, 504].includes(error.status)) throw error;
      onProblem(error.message);
      await sleep(1000);
    }
  }
}

/**
 * Reads JSON lines until the server ends them.
 * @param {string} name
 * @param {object} body
 * @param {AbortSignal} signal
 * @param {(line: any) => void} onLine
 */
export async function readLines(name, body, signal, onLine) {
  const response = await post(name, body, signal);
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() || "";
    for (const line of lines) if (line) onLine(JSON.parse(line));
  }
}

/**
 * Calls `work` now and again after each `delay`, until `signal` is aborted. A
 * page that is hidden does not poll.
 * @param {AbortSignal} signal
 * @param {number} delay In milliseconds.
 * @param {() => Promise<boolean | void>} work Returns false to stop.
 */
export async function poll(signal, delay, work) {
  while (!signal.aborted) {
    if (!document.hidden && await work() === false) return;
    await sleep(delay);
  }
}
