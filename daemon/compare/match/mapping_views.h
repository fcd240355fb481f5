// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "daemon/compare/match/tensor_mapping.h"
#include "daemon/compare/shard/assembly.h"

namespace msitd::compare {

// Sees the tensors of a group as the pairs of a mapping state. A target tensor
// that several pairs name is replaced by a copy for each of them. A golden
// tensor receives a copy for each pair that states a view of it. Copies have
// their pair as LogicalTensor::mapped_pair. Returns false if a side would have
// more than `tensors_max` tensors.
bool ApplyMappingViews(const TensorMapping& mapping, size_t tensors_max,
                       std::vector<LogicalTensor>& golden,
                       std::vector<LogicalTensor>& target);

}  // namespace msitd::compare
