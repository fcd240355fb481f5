// SPDX-License-Identifier: Apache-2.0
// Numbers and times as text.

/**
 * A number of the API: JSON has no NaN and no infinities, and 64-bit integers
 * are texts.
 * @param {number | string | null | undefined} value
 * @returns {number}
 */
export function toNumber(value) {
  if (value === null || value === undefined) return NaN;
  if (typeof value === "number") return value;
  switch (value) {
    case "inf": case "Infinity": return Infinity;
    case "-inf": case "-Infinity": return -Infinity;
    case "nan": case "NaN": return NaN;
    default: return Number(value);
  }
}

/** @param {number | string | null | undefined} value */
export function numberText(value) {
  if (value === null || value === undefined) return "-";
  const number = toNumber(value);
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number < 0 ? "-inf" : "inf";
  if (Number.isInteger(number) && Math.abs(number) < 1e7) return String(number);
  return number.toPrecision(6).replace(/\.?0+(e|$)/, "$1");
}

/**
 * A whole number with spaces between thousands.
 * @param {number | string | null | undefined} value
 */
export function countText(value) {
  const number = toNumber(value);
  if (!Number.isFinite(number)) return "-";
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number | string | null | undefined} bytes */
export function sizeText(bytes) {
  let size = toNumber(bytes);
  if (!Number.isFinite(size)) return "-";
  let unit = 0;
  for (; size >= 1024 && unit + 1 < UNITS.length; ++unit) size /= 1024;
  const digits = unit === 0 || size >= 100 ? 0 : 1;
  return `${size.toFixed(digits).replace(/\.0$/, "")} ${UNITS[unit]}`;
}

/**
 * An error as a multiple of its bound: `0.5x`, `12x`.
 * @param {number | string | null | undefined} share
 */
export function shareText(share) {
  const number = toNumber(share);
  if (Number.isNaN(number)) return "-";
  if (!Number.isFinite(number)) return "inf";
  return `${number >= 100 ? Math.round(number) : Number(number.toPrecision(2))}x`;
}

/** @param {string | undefined} time RFC 3339 */
export function timeText(time) {
  return time ? time.replace(/\.\d+/, "").replace("T", " ").replace("Z", "") : "-";
}

/**
 * `0-3, 8` of ranges of ranks.
 * @param {{first: number, last: number}[] | undefined} ranges
 */
export function rangesText(ranges) {
  return (ranges || [])
      .map((r) => (r.first === r.last ? String(r.first) : `${r.first}-${r.last}`))
      .join(", ");
}

/**
 * The pattern of a word of a search for ops: `=head` is the op of this name, a
 * word with `*` or `?` is a pattern, and others are parts of names.
 * @param {string} word
 */
export const patternOf = (word) => word.startsWith("=") ? word.slice(1) : /[*?]/.test(word) ? word : `*${word}*`;

/**
 * A word that searches for one op. Blanks would separate words.
 * @param {string} op
 */
export const exactWord = (op) => `=${op.replace(/\s/g, "?")}`;
