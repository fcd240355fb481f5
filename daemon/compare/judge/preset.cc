// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/preset.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "daemon/compare/judge/row_metrics.h"
#include "protos/base/check.h"

namespace msitd::compare {
namespace {

// Classes of element types, from strict to loose. A complex type has the class
// of its components. Floats with fewer than 16 bits are classified by their
// number of digits.
enum class Looseness {
  kExact,
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kFourDigits,   // float8_e4m3fn.
  kThreeDigits,  // float8_e5m2.
  kTwoDigits,    // float4_e2m1fn.
};
constexpr int kLoosenessCount = 8;

Looseness LoosenessOf(DType dtype) {
  const int digits = InfoOf(dtype).digits;
  // Scales are powers of two. Two scales that differ do so by a factor of at
  // least 2, which is not a rounding error.
  if (digits < 2) return Looseness::kExact;
  if (digits == 2) return Looseness::kTwoDigits;
  if (digits == 3) return Looseness::kThreeDigits;
  if (digits == 4) return Looseness::kFourDigits;
  if (digits <= 8) return Looseness::kBfloat16;
  if (digits <= 11) return Looseness::kFloat16;
  return digits <= 24 ? Looseness::kFloat32 : Looseness::kFloat64;
}

// Returns the class of a tensor of type `dtype`. Exact types stay exact,
// because their values were not rounded.
Looseness LoosenessOn(const Basis& basis, DType dtype) {
  const Looseness own = LoosenessOf(dtype);
  return own == Looseness::kExact
             ? own
             : std::max(own, LoosenessOf(basis.computed_in));
}

// Parses a predicate that must be valid.
predicate::Predicate Trusted(const std::string& text) {
  auto predicate = predicate::Predicate::Parse(text, MetricNames());
  MSITD_CHECK(predicate.ok());
  return *std::move(predicate);
}

// Returns the predicate of the default policy with these bounds. Its bounded
// metrics are listed first, so that a failure names one of them and not the
// number of elements that differ. `median` is the bound of the median nl2 of
// rows and of channels. It reveals errors of most rows or channels, which the
// norm of the whole tensor hides if the values of the others are much larger.
predicate::Predicate Bounded(std::string_view nl2,
                             std::string_view scaled_max_abs,
                             std::string_view median) {
  return Trusted(fmt::format(
      "nan_mismatch_count == 0 and inf_mismatch_count == 0 and nl2 <= {} and "
      "scaled_max_abs <= {} and row_nl2_p50 <= {} if present and "
      "channel_nl2_p50 <= {} if present or mismatch_count == 0",
      nl2, scaled_max_abs, median, median));
}

PresetTolerance Elementwise(double rtol, double atol, bool either) {
  static const predicate::Predicate predicate = Trusted("outlier_count == 0");
  return {&predicate, compute::kToleranceSet, rtol, atol, either};
}

// Returns the tolerance of torch.testing, which has none for floats with fewer
// than 16 bits. For those, rtol is the relative distance of adjacent values.
// The tables are in the order of Looseness.
PresetTolerance TorchTolerance(Looseness target, Looseness golden) {
  constexpr std::array<double, kLoosenessCount> kRtol = {
      0, 1e-7, 1.3e-6, 1e-3, 1.6e-2, 0.125, 0.25, 0.5};
  constexpr std::array<double, kLoosenessCount> kAtol = {
      0, 1e-7, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5, 1e-5};
  const auto t = static_cast<size_t>(target);
  const auto g = static_cast<size_t>(golden);
  return Elementwise(std::max(kRtol[t], kRtol[g]), std::max(kAtol[t], kAtol[g]),
                     false);
}

PresetTolerance OfPredicate(const predicate::Predicate& predicate,
                            uint32_t sets) {
  return {&predicate, SetsOf(predicate) | sets};
}

PresetTolerance MsitTolerance() {
  static const predicate::Predicate predicate = Trusted(
      "msit_cosine > 0.99 and msit_euclid < 0.05 and kl < 0.005 and rmse < 1 "
      "and msit_mean_rel < 1");
  return OfPredicate(predicate, 0);
}

// Early releases of msprobe judge all tensors by the cosine and the largest
// difference, and give no verdict on single elements. Later ones require that
// arguments that are not tensors are equal. By a tolerance, 2 would pass as a
// 3, and a sequence of ids with one wrong id would pass, too.
PresetTolerance MsprobeTolerance(DType target, DType golden, PairForm form) {
  static const predicate::Predicate many = Trusted(
      "nan_mismatch_count == 0 and inf_mismatch_count == 0 and max_abs <= 1 "
      "and cosine >= 0.9 and (max_abs <= 0.001 or cosine >= 0.99) or "
      "mismatch_count == 0");
  static const predicate::Predicate single = Trusted(
      "nan_mismatch_count == 0 and inf_mismatch_count == 0 and max_abs <= 1 "
      "and (max_abs <= 0.001 or nl2 <= 0.001) or mismatch_count == 0");
  static const predicate::Predicate exact = Trusted("mismatch_count == 0");
  const bool is_exact =
      form == PairForm::kValues || (LoosenessOf(target) == Looseness::kExact &&
                                    LoosenessOf(golden) == Looseness::kExact);
  const bool is_single = form == PairForm::kSingle;
  return OfPredicate(is_exact    ? exact
                     : is_single ? single
                                 : many,
                     compute::kMsprobeSet | compute::kShareSet);
}

PresetTolerance SglangTolerance() {
  static const predicate::Predicate predicate = Trusted(
      "nan_mismatch_count == 0 and inf_mismatch_count == 0 and rel <= 1e-3 or "
      "mismatch_count == 0");
  return OfPredicate(predicate, 0);
}

PresetTolerance BitwiseTolerance() {
  static const predicate::Predicate predicate =
      Trusted("bitwise_mismatch_count == 0");
  return OfPredicate(predicate, 0);
}

// Returns the predicate of the default policy. `is_one_op`: a single op made
// the difference, not a network. One op rounds to a narrow type only a few
// times, so its bounds are four times the largest error of one rounding. In
// wide types, the length of sums has more influence than the number of
// roundings, so one op has the bounds of a network.
const predicate::Predicate& DefaultOf(Looseness looseness, bool is_one_op) {
  static const predicate::Predicate float16_op =
      Bounded("2e-3", "8e-3", "4e-3");
  static const predicate::Predicate bfloat16_op =
      Bounded("1.6e-2", "6e-2", "3.2e-2");
  if (is_one_op && looseness == Looseness::kFloat16) return float16_op;
  if (is_one_op && looseness == Looseness::kBfloat16) return bfloat16_op;
  // In the order of Looseness.
  static const std::array<predicate::Predicate, kLoosenessCount> predicates = {
      Trusted("mismatch_count == 0"),    Bounded("1e-7", "1e-7", "2e-7"),
      Bounded("1e-4", "1e-4", "2e-4"),   Bounded("1e-2", "2e-2", "2e-2"),
      Bounded("5e-2", "1e-1", "1e-1"),   Bounded("1.25e-1", "2.5e-1", "2.5e-1"),
      Bounded("2.5e-1", "5e-1", "5e-1"), Bounded("5e-1", "1", "1"),
  };
  return predicates[static_cast<size_t>(looseness)];
}

}  // namespace

uint32_t SetsOf(const predicate::Predicate& predicate) {
  uint32_t sets = 0;
  for (const int name : predicate.Names()) sets |= SetOf(name);
  return sets;
}

const predicate::Predicate& DefaultPredicate(DType target, DType golden,
                                             const Basis& basis) {
  return DefaultOf(
      std::max(LoosenessOn(basis, target), LoosenessOn(basis, golden)),
      basis.has_equal_inputs);
}

PresetTolerance ToleranceOf(Preset preset, DType target, DType golden,
                            const Basis& basis, PairForm form) {
  const Looseness target_looseness = LoosenessOn(basis, target);
  const Looseness golden_looseness = LoosenessOn(basis, golden);
  switch (preset) {
    case Preset::kTorch:
      return TorchTolerance(target_looseness, golden_looseness);
    case Preset::kPolygraphy:
      return Elementwise(1e-5, 1e-5, true);
    case Preset::kSglang:
      return SglangTolerance();
    case Preset::kMsit:
      return MsitTolerance();
    case Preset::kMsprobe:
      return MsprobeTolerance(target, golden, form);
    case Preset::kBitwise:
      return BitwiseTolerance();
    case Preset::kFp8: {
      const Looseness looser = std::max(golden_looseness, target_looseness);
      return {
          looser == Looseness::kExact
              ? &DefaultOf(looser, false)
              : &DefaultOf(std::max(looser, Looseness::kFourDigits), false)};
    }
    case Preset::kDefault:
      break;
  }
  return {&DefaultPredicate(target, golden, basis)};
}

}  // namespace msitd::compare
