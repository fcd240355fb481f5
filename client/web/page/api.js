// SPDX-License-Identifier: Apache-2.0
// Calls of the server. Nothing else is ever requested.

const KEY = "msitd-token";

/** An answer that is an error. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Keeps the token in the address, and removes it from there. Later pages of the
 * same address find it in the storage of the browser. A server that is started
 * again has another token.
 */
export function takeToken() {
  const match = /^#token=([0-9a-f]+)$/.exec(location.hash);
  if (!match) return;
  localStorage.setItem(KEY, match[1]);
  history.replaceState(null, "", location.pathname + "#/");
}

/**
 * @param {string} name
 * @param {object} body
 * @param {AbortSignal} [signal]
 */
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

/**
 * @param {string} name
 * @param {object} body
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function call(name, body, signal) {
  return (await post(name, body, signal)).json();
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
    await new Promise((resolve) => setTimeout(resolve, delay));
  }
}
