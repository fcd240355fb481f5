// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/judge/basis.h"
#include "daemon/predicate/predicate.h"
#include "protos/base/dtype.h"

// Tolerances by element type as tools of the field have them.
// docs/predicates.md has every number and its source.
namespace msitd::compare {

// The numbers are those of msitd.v1.Policy.Preset.
enum class Preset {
  kDefault = 0,
  kTorch = 1,
  kPolygraphy = 2,
  kSglang = 3,
  kMsit = 4,
  kMsprobe = 5,
  kBitwise = 6,
  kFp8 = 7,
};

// What a preset asks of a pair.
struct PresetTolerance {
  const predicate::Predicate* predicate;  // Lives as long as the process.
  uint32_t sets = 0;                      // compute::MetricSet
  double rtol = 0;
  double atol = 0;
  bool either = false;
};

// Returns the tolerance for the loosest of two valid element types and of the
// basis. Integers stay exact, whatever they were computed from.
PresetTolerance ToleranceOf(Preset preset, DType target, DType golden,
                            const Basis& basis = {});

// The predicate of Preset::kDefault.
const predicate::Predicate& DefaultPredicate(DType target, DType golden,
                                             const Basis& basis = {});

// The sets that the metrics of a predicate over MetricNames belong to.
uint32_t SetsOf(const predicate::Predicate& predicate);

}  // namespace msitd::compare
