// SPDX-License-Identifier: Apache-2.0
// Round numbers for axes.

/**
 * The least number from `x` on that is 1, 2 or 5 times a power of ten.
 * @param {number} x
 */
export function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return ([1, 2, 5].find((n) => x / power <= n + 1e-6) || 10) * power;
}

/**
 * Round numbers from `low` to `high`.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function ticksOf(low, high, count) {
  const span = high - low;
  if (!(span > 0)) return [low];
  if (!Number.isFinite(span)) return [low, high];
  const step = nice(span / count) || span / count;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9) - first;
  // Steps that are too small for the numbers.
  if (!(last <= 2 * count) || first + 1 === first) return [low];
  return Array.from({ length: Math.max(last + 1, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
}
