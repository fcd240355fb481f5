// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/explain/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "daemon/compare/explain/closed_scores.h"
#include "daemon/compare/explain/few_elements.h"
#include "daemon/compare/explain/hypothesis.h"
#include "daemon/compare/explain/subset.h"

namespace msitd::compare::explain {
namespace {

// In the order in which equally simple fits are preferred.
constexpr std::array<Hypothesis, 15> kHypotheses = {
    TestTerms,  TestFactors,   TestRounding,       TestActivations,
    TestShifts, TestOrders,    TestArrangements,   TestProbabilities,
    TestNorms,  TestRotations, TestRotationTables, TestRotaryRates,
    TestLimits, TestZeros,     TestAttention,
};

// A second explanation is at most this much less simple than the first.
constexpr double kComplexityStep = 0.25;

// For a target with one value, which agrees by chance with functions that map
// many values to one, such as an activation of a mask.
constexpr std::array<Hypothesis, 3> kHypothesesOfConstants = {
    TestTerms, TestFactors, TestZeros};

void RunAll(Examination& pair) {
  if (pair.is_finite() && IsConstant(pair.target())) {
    for (const Hypothesis test : kHypothesesOfConstants) test(pair);
    return;
  }
  for (const Hypothesis test : kHypotheses) test(pair);
}

// Tests only the indices that differ, and offers the result for the whole.
std::optional<Fit> FitOfSubset(const Examination& pair) {
  const std::optional<Subset> subset = FindSubset(pair);
  if (!subset.has_value()) return std::nullopt;
  Fit out;
  out.kind = Kind::kSubset;
  out.where = IndicesText(subset->indices, subset->dim);
  out.text = fmt::format("{} of {} indices of dimension {} differ",
                         subset->indices.size(), subset->count, subset->dim);
  out.residual = subset->residual;
  const ExaminedOp part = PartOf(pair.op(), *subset);
  if (part.golden.values.size() < kExaminedElementsMin) return out;
  Examination of_part(part);
  if (!(of_part.golden_norm() > 0)) return out;
  RunAll(of_part);
  const auto best = std::min_element(
      of_part.fits().begin(), of_part.fits().end(),
      [](const Fit& a, const Fit& b) { return a.complexity < b.complexity; });
  if (best == of_part.fits().end()) return out;
  std::string where = std::move(out.where);
  out = *best;
  out.where = std::move(where);
  out.without = out.without.value_or(of_part.without());
  return out;
}

Explanation ExplanationOf(const Fit& fit, const Examination& pair) {
  return {fit.kind,       fit.text,     fit.where,
          fit.parameters, fit.residual, fit.without.value_or(pair.without()),
          pair.noise()};
}

bool IsUsable(const Elements& elements) {
  double count = 1;
  for (const int64_t size : elements.shape) {
    if (size <= 0) return false;
    count *= static_cast<double>(size);
  }
  return count == static_cast<double>(elements.values.size()) &&
         !elements.values.empty();
}

std::vector<Explanation> Shown(std::vector<Fit> fits, const Examination& pair) {
  std::stable_sort(fits.begin(), fits.end(), [](const Fit& a, const Fit& b) {
    return a.complexity < b.complexity;
  });
  std::vector<Explanation> out;
  for (const Fit& fit : fits) {
    if (out.size() == kExplanationsMax) break;
    const bool is_as_simple =
        fit.complexity <= fits.front().complexity + kComplexityStep &&
        fit.residual <= 2 * fits.front().residual;
    const bool is_new = std::none_of(
        out.begin(), out.end(),
        [&fit](const auto& other) { return other.kind == fit.kind; });
    if (out.empty() || (is_as_simple && is_new)) {
      out.push_back(ExplanationOf(fit, pair));
    }
  }
  return out;
}

}  // namespace

std::vector<Explanation> Explain(const ExaminedOp& op) {
  if (!IsUsable(op.golden) || !IsUsable(op.target) ||
      op.golden.values.size() != op.target.values.size() ||
      !(op.noise <= kExplainedNoiseMax)) {
    return {};
  }
  if (op.golden.values.size() < kExaminedElementsMin) {
    const auto found = ExplainFew(op);
    return found.has_value() ? std::vector{*found} : std::vector<Explanation>();
  }
  const OpenScores scores = OpenScoresOf(op);
  Examination pair(scores.op.has_value() ? *scores.op : op);
  // A mask that closes nothing is constant.
  if (const auto mask =
          scores.mask.has_value() ? scores.mask : BooleanMaskOf(op);
      mask.has_value() && !op.stale_token.has_value()) {
    return {ExplanationOf(*mask, pair)};
  }
  if (IsConstant(op.golden.values) || !(pair.golden_norm() > 0) ||
      !std::isfinite(pair.golden_norm()) || pair.without() == 0) {
    return {};
  }
  if (op.stale_token.has_value()) {
    Fit fit = {Kind::kStale,
               fmt::format("the tensor of token {}", *op.stale_token),
               {static_cast<double>(*op.stale_token)},
               0,
               0,
               0};
    return {ExplanationOf(fit, pair)};
  }
  if (op.golden.shape != op.target.shape) {
    TestArrangements(pair);
    return Shown(pair.fits(), pair);
  }
  RunAll(pair);
  TestIntegerTables(pair);
  std::vector<Fit> fits = pair.fits();
  // A mistake of some indices is simpler than one with a parameter for each.
  constexpr double kSimple = 4;
  const bool is_simple =
      std::any_of(fits.begin(), fits.end(),
                  [](const Fit& f) { return f.complexity <= kSimple; });
  if (!is_simple) {
    if (auto part = FitOfSubset(pair)) {
      if (part->kind != Kind::kSubset || fits.empty()) {
        if (part->kind != Kind::kSubset) part->complexity += 1;
        fits.push_back(*std::move(part));
      }
    }
  }
  return Shown(std::move(fits), pair);
}

}  // namespace msitd::compare::explain
