// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "daemon/compare/judge/basis.h"
#include "daemon/predicate/predicate.h"
#include "protos/base/dtype.h"

// Presets: tolerances by element type, most of them those of other tools.
// docs/predicates.md lists all numbers and their sources.
namespace msitd::compare {

// The values are those of msitd.v1.Policy.Preset.
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

// The condition that a preset requires of a pair. See Verification and
// compute::ElementRequest.
struct PresetTolerance {
  const predicate::Predicate* predicate;  // Lives as long as the process.
  uint32_t sets = 0;                      // compute::MetricSet
  double rtol = 0;
  double atol = 0;
  bool either = false;
};

// The contents of a pair, as far as presets distinguish them.
enum class PairForm : uint8_t {
  kTensors,  // Tensors with no element or several.
  kSingle,   // Tensors of one element, for which a cosine is always 1 or -1.
  kValues,   // Numbers that are not tensors.
};

// Returns the tolerance for the coarsest of both element types and the type of
// the basis. Both element types must be valid. Only Preset::kMsprobe depends on
// `form`.
PresetTolerance ToleranceOf(Preset preset, DType target, DType golden,
                            const Basis& basis = {},
                            PairForm form = PairForm::kTensors);

// Returns the predicate of Preset::kDefault. It is valid as long as the
// process. Integers must be equal, even if they were computed from floats.
const predicate::Predicate& DefaultPredicate(DType target, DType golden,
                                             const Basis& basis = {});

// Returns the metric sets that contain the metrics of a predicate. The names of
// the predicate must be MetricNames.
uint32_t SetsOf(const predicate::Predicate& predicate);

}  // namespace msitd::compare
