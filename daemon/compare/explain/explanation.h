// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace msitd::compare::explain {

// Kind of a mistake. The numbers are those of v1::Explanation::Kind, which
// describes them.
enum class Kind : uint8_t {
  kUnspecified = 0,
  kFactor = 1,
  kSign = 2,
  kOffset = 3,
  kAffine = 4,
  kTerm = 5,
  kSameAsInput = 6,
  kOrder = 7,
  kArrangement = 8,
  kShift = 9,
  kMask = 10,
  kSoftmaxScale = 11,
  kRopePairs = 12,
  kRopeBase = 13,
  kRopePositions = 14,
  kEps = 15,
  kActivation = 16,
  kSwappedInputs = 17,
  kRounded = 18,
  kSaturated = 19,
  kZeros = 20,
  kDropout = 21,
  kStale = 22,
  kSubset = 23,
};

// A mistake that explains a difference; see v1::Explanation.
struct Explanation {
  Kind kind = Kind::kUnspecified;
  std::string text;
  std::string where;
  std::vector<double> parameters;
  double residual = 0;
  double residual_without = 0;
  double noise = 0;
};

}  // namespace msitd::compare::explain
