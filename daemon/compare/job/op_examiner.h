// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// Maximum number of causes of a comparison that are examined. Each takes up to
// 50 ms, and up to 2 MiB of float32 for each of its tensors are read.
inline constexpr int kExaminedOpsMax = 8;
// Maximum number of sources that are tried as inputs of an op. At most
// explain::kExaminedInputsMax of them are read.
inline constexpr size_t kTriedSourcesMax = 32;
// The number of earlier tokens whose tensors may be stale, and the number of
// records that are read for them.
inline constexpr int64_t kStaleTokensMax = 16;
inline constexpr int kStaleRecordsMax = 256;

// Returns whether a pair can be examined: both sides have bytes and the same
// number of elements, which are real numbers, and their rows are not in any
// order.
bool CanBeExamined(const TensorPair& pair);

// Reads a pair of outputs and the golden tensors of its sources. If the pair
// has more than explain::kExaminedElementsMax elements, reads the first ones,
// as whole rows. Sources that cannot be inputs of an elementwise op, or that
// cannot be read, are left out. `name_ops` adds the ops of the sources to their
// names. `input_error` is the largest error of the sources.
//
// Errors: FAILED_PRECONDITION if the pair cannot be examined; those of
// ElementReader.
absl::StatusOr<explain::ExaminedOp> ReadExaminedOp(
    const TensorPair& pair, const std::vector<const TensorPair*>& sources,
    bool name_ops, double input_error, DType computed_in, const PairRuns& runs,
    WorkObserver& observer);

}  // namespace msitd::compare
