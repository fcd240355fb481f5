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

// From strict to loose. A complex type counts as its components' type.
enum class Looseness {
  kExact,
  kFloat64,
  kFloat32,
  kFloat16,
  kBfloat16,
  kFloat8E4m3fn,
  kFloat8E5m2,
};
constexpr int kLoosenessCount = 7;

Looseness LoosenessOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
    case DType::kComplex128:
      return Looseness::kFloat64;
    case DType::kFloat32:
    case DType::kComplex64:
      return Looseness::kFloat32;
    case DType::kFloat16:
      return Looseness::kFloat16;
    case DType::kBfloat16:
      return Looseness::kBfloat16;
    case DType::kFloat8E4m3fn:
      return Looseness::kFloat8E4m3fn;
    case DType::kFloat8E5m2:
      return Looseness::kFloat8E5m2;
    default:
      return Looseness::kExact;
  }
}

predicate::Predicate Trusted(const std::string& text) {
  auto predicate = predicate::Predicate::Parse(text, MetricNames());
  MSITD_CHECK(predicate.ok());
  return *std::move(predicate);
}

// The bounded comparisons come first, so that a failure names them and not
// the count of elements that differ.
predicate::Predicate Bounded(std::string_view nl2,
                             std::string_view scaled_max_abs) {
  return Trusted(
      fmt::format("nan_mismatch_count == 0 and inf_mismatch_count == 0 and "
                  "nl2 <= {} and scaled_max_abs <= {} or mismatch_count == 0",
                  nl2, scaled_max_abs));
}

PresetTolerance Elementwise(double rtol, double atol, bool either) {
  static const predicate::Predicate predicate = Trusted("outlier_count == 0");
  return {&predicate, compute::kToleranceSet, rtol, atol, either};
}

// The table of torch.testing; it has no 8-bit floats, for which this takes the
// distance of neighbouring values.
PresetTolerance TorchTolerance(Looseness target, Looseness golden) {
  constexpr std::array<double, kLoosenessCount> kRtol = {
      0, 1e-7, 1.3e-6, 1e-3, 1.6e-2, 0.125, 0.25};
  constexpr std::array<double, kLoosenessCount> kAtol = {0,    1e-7, 1e-5, 1e-5,
                                                         1e-5, 1e-5, 1e-5};
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

PresetTolerance MsprobeTolerance() {
  static const predicate::Predicate predicate = Trusted(
      "nan_mismatch_count == 0 and inf_mismatch_count == 0 and max_abs <= 1 "
      "and cosine >= 0.9 and (max_abs <= 0.001 or cosine >= 0.99) or "
      "mismatch_count == 0");
  return OfPredicate(predicate, compute::kMsprobeSet | compute::kShareSet);
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

}  // namespace

uint32_t SetsOf(const predicate::Predicate& predicate) {
  uint32_t sets = 0;
  for (const int name : predicate.Names()) sets |= SetOf(name);
  return sets;
}

const predicate::Predicate& DefaultPredicate(DType target, DType golden) {
  // In the order of Looseness.
  static const std::array<predicate::Predicate, kLoosenessCount> predicates = {
      Trusted("mismatch_count == 0"), Bounded("1e-7", "1e-7"),
      Bounded("1e-4", "1e-4"),        Bounded("1e-2", "2e-2"),
      Bounded("5e-2", "1e-1"),        Bounded("1.25e-1", "2.5e-1"),
      Bounded("2.5e-1", "5e-1"),
  };
  const Looseness looser = std::max(LoosenessOf(target), LoosenessOf(golden));
  return predicates[static_cast<size_t>(looser)];
}

PresetTolerance ToleranceOf(Preset preset, DType target, DType golden) {
  const Looseness target_looseness = LoosenessOf(target);
  const Looseness golden_looseness = LoosenessOf(golden);
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
      return MsprobeTolerance();
    case Preset::kBitwise:
      return BitwiseTolerance();
    case Preset::kFp8: {
      const bool exact =
          std::max(target_looseness, golden_looseness) == Looseness::kExact;
      return {exact ? &DefaultPredicate(target, golden)
                    : &DefaultPredicate(
                          std::max(golden_looseness, target_looseness) ==
                                  Looseness::kFloat8E5m2
                              ? DType::kFloat8E5m2
                              : DType::kFloat8E4m3fn,
                          DType::kFloat8E4m3fn)};
    }
    case Preset::kDefault:
      break;
  }
  return {&DefaultPredicate(target, golden)};
}

}  // namespace msitd::compare
