// SPDX-License-Identifier: Apache-2.0
import { h, putText } from "./dom.js";

/** A text next to the pointer, or to the place that was reached with keys. */
export class Tip {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.text = "";
    this.element = h("div", { class: "tip float", role: "status" });
    addEventListener("scroll", () => this.hide(), { passive: true, signal });
  }

  /**
   * @param {string} text
   * @param {number} x In the window, as `clientX`.
   * @param {number} y
   */
  show(text, x, y) {
    const { element } = this;
    if (text !== this.text) {
      this.text = text;
      element.replaceChildren();
      putText(element, text);
    }
    const { offsetWidth: width, offsetHeight: height } = element;
    element.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
    element.style.top = `${Math.max(4, y + 18 + height > innerHeight ? y - height - 10 : y + 18)}px`;
  }

  hide() {
    this.text = "";
    this.element.replaceChildren();
  }
}
