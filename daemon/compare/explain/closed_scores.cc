// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/closed_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "daemon/compare/explain/explain.h"

namespace msitd::compare::explain {
namespace {

// A closing value is at most this, which is -10,000 after any rounding and with
// a score, and at least this many times as large as all others.
constexpr double kClosingMax = -9e3;
constexpr double kLargerThanOthers = 10;

// Returns the largest value that closes elements of a mask; nullopt if there is
// none. A mask that was combined from several may have several.
std::optional<double> ClosingValueOf(const std::vector<double>& values) {
  size_t closed = 0;
  double open = 0;
  for (const double x : values) {
    if (std::isnan(x)) return std::nullopt;
    closed += x <= kClosingMax ? 1 : 0;
    if (x > kClosingMax) open = std::max(open, std::fabs(x));
  }
  if (closed >= 2 && -kClosingMax >= kLargerThanOthers * open) {
    return kClosingMax;
  }
  // Some of the values may have overflowed.
  double least = 0;
  for (const double x : values) {
    if (std::isfinite(x)) least = std::min(least, x);
  }
  if (!(least <= kClosingMax)) least = -std::numeric_limits<double>::infinity();
  size_t count = 0;
  double others = 0;
  for (const double x : values) {
    // A score that is added to the value may not be rounded away.
    if (x <= least / 2) {
      ++count;
    } else {
      others = std::max(others, std::fabs(x));
    }
  }
  if (count < 2 || !(std::fabs(least) >= kLargerThanOthers * others) ||
      std::isinf(others)) {
    return std::nullopt;
  }
  return least / 2;
}

// `golden_only` positions are closed only by golden, `target_only` only by the
// target.
Fit MaskFit(size_t golden_only, size_t target_only, double residual) {
  Fit fit;
  fit.kind = Kind::kMask;
  fit.text =
      golden_only == 0
          ? fmt::format("mask of other positions: closes {} more", target_only)
      : target_only == 0
          ? fmt::format("mask of other positions: opens {} more", golden_only)
          : fmt::format(
                "mask of other positions: closes {} and opens "
                "{} more",
                target_only, golden_only);
  fit.residual = residual;
  fit.without = kInfinite;
  return fit;
}

// Returns whether the true or the false elements of a row are adjacent.
bool IsOneRange(std::span<const double> row) {
  size_t changes = 0;
  for (size_t i = 1; i < row.size(); ++i) {
    changes += (row[i] != 0) != (row[i - 1] != 0) ? 1 : 0;
  }
  return changes <= 2;
}

}  // namespace

OpenScores OpenScoresOf(const ExaminedOp& op) {
  const auto golden_closing = ClosingValueOf(op.golden.values);
  const auto target_closing = ClosingValueOf(op.target.values);
  OpenScores out;
  if (!golden_closing.has_value() && !target_closing.has_value()) return out;
  out.op = op;
  std::vector<double>& golden = out.op->golden.values;
  std::vector<double>& target = out.op->target.values;
  size_t golden_only = 0;
  size_t target_only = 0;
  size_t open = 0;
  double squares = 0;
  double norm = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    const bool is_golden =
        golden_closing.has_value() && golden[i] <= *golden_closing;
    const bool is_target =
        target_closing.has_value() && target[i] <= *target_closing;
    golden_only += is_golden && !is_target ? 1 : 0;
    target_only += is_target && !is_golden ? 1 : 0;
    if (is_golden || is_target) {
      golden[i] = 0;
      target[i] = 0;
      continue;
    }
    ++open;
    squares += (golden[i] - target[i]) * (golden[i] - target[i]);
    norm += golden[i] * golden[i];
  }
  // A mask without scores has zeros where it is open.
  const double residual = norm > 0 ? std::sqrt(squares / norm) : squares;
  if (golden_only + target_only == 0 || open < 2 ||
      !(residual <= kResidualNoisesMax * op.noise)) {
    return out;
  }
  out.mask = MaskFit(golden_only, target_only, residual);
  return out;
}

std::optional<Fit> BooleanMaskOf(const ExaminedOp& op) {
  const auto& shape = op.golden.shape;
  if (op.dtype != DType::kBool || shape.size() < 2 ||
      op.target.shape != shape || shape[shape.size() - 2] < 2) {
    return std::nullopt;
  }
  const auto width = static_cast<size_t>(shape.back());
  for (const auto* const values : {&op.golden.values, &op.target.values}) {
    for (size_t begin = 0; begin < values->size(); begin += width) {
      if (!IsOneRange(std::span(*values).subspan(begin, width))) {
        return std::nullopt;
      }
    }
  }
  size_t golden_only = 0;
  size_t target_only = 0;
  for (size_t i = 0; i < op.golden.values.size(); ++i) {
    golden_only += op.golden.values[i] < op.target.values[i] ? 1 : 0;
    target_only += op.golden.values[i] > op.target.values[i] ? 1 : 0;
  }
  if (golden_only + target_only == 0) return std::nullopt;
  Fit fit = MaskFit(golden_only, target_only, 0);
  fit.text = fmt::format(
      "boolean mask of other positions: {} more are false, {} more are true",
      target_only, golden_only);
  return fit;
}

}  // namespace msitd::compare::explain
