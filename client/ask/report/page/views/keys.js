// SPDX-License-Identifier: Apache-2.0

/**
 * Calls the action of a key. In a field, keys other than Escape are text.
 * @param {Record<string, () => void>} actions
 * @param {AbortSignal} signal
 */
export function onKeys(actions, signal) {
  addEventListener("keydown", (event) => {
    const action = Object.hasOwn(actions, event.key) && actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    const { tagName } = /** @type {Element} */ (event.target);
    if (event.key !== "Escape" && ["INPUT", "SELECT", "TEXTAREA"].includes(tagName)) return;
    // In a field, Escape also clears a search.
    if (event.key !== "Escape") event.preventDefault();
    action();
  }, { signal });
}
