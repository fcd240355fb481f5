// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/compare/job/choice_reader.h"
#include "daemon/compare/match/tensor_group.h"
#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Returns whether an op computes a softmax, by the last part of its name.
bool IsSoftmax(std::string_view op);

// Reads scores and the result of a softmax over their last dimension. Returns
// whether in both runs, the result is the softmax of that run's own scores, up
// to rounding. The op is then correct in both runs, however much the results
// differ: an example are rows in which a mask closes all positions with -1e4.
// In bfloat16, all of their scores are -1e4, and each run has its own rounding
// errors there.
//
// False for tensors of other shapes, or with more than
// explain::kExaminedElementsMax elements.
//
// Errors: those of ElementReader.
absl::StatusOr<bool> AreOfOwnScores(const TensorPair& scores,
                                    const TensorPair& result,
                                    const PairRuns& runs,
                                    WorkObserver& observer);

}  // namespace msitd::compare
