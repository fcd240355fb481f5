// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/explain/explain.h"

// Ops for tests of explanations.
namespace msitd::compare::explain {

// Returns a tensor of random elements that differ from each other.
inline Elements Random(std::vector<int64_t> shape, unsigned seed = 1) {
  Elements out;
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  out.shape = std::move(shape);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) out.values.push_back(normal(random));
  return out;
}

// Returns the tensor with each element replaced by `of(element, place)`.
inline Elements Mapped(const Elements& x,
                       const std::function<double(double, size_t)>& of) {
  Elements out = x;
  for (size_t i = 0; i < out.values.size(); ++i) {
    out.values[i] = of(x.values[i], i);
  }
  return out;
}

inline ExaminedOp OpOf(Elements golden, Elements target,
                       std::vector<ExaminedInput> inputs = {}) {
  ExaminedOp out;
  out.golden = std::move(golden);
  out.target = std::move(target);
  out.inputs = std::move(inputs);
  out.noise = NoiseOf(0, DType::kFloat32);
  return out;
}

// Returns the only explanation; of kind kUnspecified if there is none, or if
// there are several.
inline Explanation Only(const ExaminedOp& op) {
  const std::vector<Explanation> out = Explain(op);
  return out.size() == 1 ? out.front() : Explanation();
}

}  // namespace msitd::compare::explain
