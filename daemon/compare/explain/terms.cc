// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>

#include "daemon/compare/explain/hypothesis.h"

// Tensors that the op was computed from and that were added or not.
namespace msitd::compare::explain {
namespace {

// Returns how an input is repeated to have the shape of the output: as a value
// for each index of a dimension, or not at all. nullopt if it has another
// shape.
std::optional<Slices> BroadcastOf(const Elements& input,
                                  std::span<const int64_t> shape) {
  const size_t count = input.values.size();
  Slices all = RowsOf(shape);
  if (count == all.count * all.inner) return Slices{count, 1, 1};
  if (input.shape.size() != 1 || count < 2) return std::nullopt;
  // A value for each channel: of the last dimension, or of the second one of an
  // image.
  if (shape.size() >= 2 && static_cast<size_t>(shape.back()) == count) {
    return SlicesOf(shape, shape.size() - 1);
  }
  if (shape.size() >= 3 && static_cast<size_t>(shape[1]) == count) {
    return SlicesOf(shape, 1);
  }
  return std::nullopt;
}

std::string TermText(const std::string& name, double factor, bool is_lost,
                     bool is_again) {
  if (is_lost) return fmt::format("golden without {}", name);
  if (is_again) return fmt::format("golden + {}", name);
  return fmt::format("golden + {:.4g} * {}", factor, name);
}

// The sums from which the factor of a term x in a difference d follows.
struct TermSums {
  double xx = 0;
  double dx = 0;
  double dd = 0;
  double norm = 0;

  void Add(double x, double d, double golden) {
    if (!std::isfinite(x) || !std::isfinite(d)) return;
    xx += x * x;
    dx += d * x;
    dd += d * d;
    norm += std::max(golden * golden, d * d);
  }
  // The square of the difference that remains.
  double Error() const { return xx > 0 ? dd - dx * dx / xx : dd; }
};

void TestTerm(Examination& pair, const ExaminedInput& input) {
  const auto slices = BroadcastOf(input.elements, pair.shape());
  if (!slices.has_value()) return;
  const auto& values = input.elements.values;
  const auto golden = pair.golden();
  TermSums sums;
  if (!pair.sample().empty()) {
    // Most inputs are not terms.
    for (const size_t i : pair.sample()) {
      sums.Add(values[slices->IndexOf(i)], pair.target()[i] - golden[i],
               golden[i]);
    }
    if (!pair.MayHold(sums.Error(), sums.norm)) return;
    sums = {};
  }
  ForEachElement(*slices, [&](size_t index, size_t i) {
    sums.Add(values[index], pair.target()[i] - golden[i], golden[i]);
  });
  if (!(sums.xx > 0)) return;
  double factor = sums.dx / sums.xx;
  // The error of the factor follows from that of both tensors.
  const double error = std::max(
      1e-9,
      pair.limit() * std::max(1.0, pair.golden_norm() / std::sqrt(sums.xx)));
  const bool is_lost = std::fabs(factor + 1) <= error;
  const bool is_again = std::fabs(factor - 1) <= error;
  if (is_lost || is_again) factor = std::round(factor);
  pair.Offer({Kind::kTerm,
              TermText(input.name, factor, is_lost, is_again),
              {factor},
              is_lost || is_again ? 0.9 : 1.5,
              1,
              pair.ResidualOfEach(*slices, [&](size_t index, size_t i) {
                return golden[i] + factor * values[index];
              })});
}

// Returns the input that is the golden tensor; null if all of them differ.
const ExaminedInput* GoldenInputOf(const Examination& pair) {
  const auto golden = pair.golden();
  const auto is_golden = [&](const ExaminedInput& input) {
    const auto& values = input.elements.values;
    return std::equal(values.begin(), values.end(), golden.begin(),
                      golden.end());
  };
  const auto& inputs = pair.inputs();
  const auto found = std::find_if(inputs.begin(), inputs.end(), is_golden);
  return found == inputs.end() ? nullptr : &*found;
}

}  // namespace

void TestTerms(Examination& pair) {
  const ExaminedInput* const expected = GoldenInputOf(pair);
  for (const ExaminedInput& input : pair.inputs()) {
    const auto& values = input.elements.values;
    if (values.size() == pair.size() && &input != expected) {
      pair.Offer({Kind::kSameAsInput,
                  expected == nullptr ? fmt::format("{} unchanged", input.name)
                                      : fmt::format("{} in place of {}",
                                                    input.name, expected->name),
                  {},
                  0,
                  0,
                  pair.ResidualOf([&](size_t i) { return values[i]; })});
    }
    TestTerm(pair, input);
  }
}

}  // namespace msitd::compare::explain
